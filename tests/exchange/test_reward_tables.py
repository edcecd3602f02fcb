"""Rewards that somebody else computed, from a table to numbers, through the command line."""

import csv
import decimal
import gzip
import itertools
import json

import numpy as np
import pandas as pd
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.external_rewards import read_rewards, score_rewards
from maxatk.evaluation.load import load_results
from maxatk.evaluation.results import read_results
from maxatk.exchange import read_log
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem

REWARDS = {"p2": [0.5, -1.0, 2.5, 0.0], "p10": [1.0, 1.0, 0.25, 0.75]}
ROWS = [
    {"problem_id": p, "sample": s, "reward": r, "length": 10 * s, "note": "x"}
    for p, rewards in REWARDS.items()
    for s, r in enumerate(rewards)
]


def write(folder, rows, name):
    path = folder / name
    if path.suffix == ".jsonl":
        write_jsonl(path, rows)
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt", newline="") as out:
            delimiter = "\t" if ".tsv" in path.suffixes else ","
            writer = csv.DictWriter(out, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    return path


def best_of(rewards, k):
    return np.mean([max(chosen) for chosen in itertools.combinations(rewards, k)])


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.csv.gz", "s.jsonl", "s.parquet"])
def test_the_text_of_a_number_is_a_column_of_scores_only_where_there_are_no_types(tmp_path, name):
    rows = [{"problem_id": "p", "reward": n, "style": 0.5, "pred": str(n)} for n in (0, 1)]
    (*_, last) = read_log(write(tmp_path, rows, name))
    has_types = name in ("s.jsonl", "s.parquet")
    assert last.columns == ({"style": 0.5} if has_types else {"style": 0.5, "pred": 1.0})


@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.csv.gz", "s.jsonl", "s.parquet"])
@pytest.mark.parametrize(
    ("rows", "mapping"),
    [
        ([{"problem_id": "p", "reward": "0"}, {"problem_id": "p", "reward": "1"}], {}),
        ([{"problem_id": "p", "try0": "0", "try1": "1"}], {}),
        ([{"problem_id": "p", "pred": "0"}, {"problem_id": "p", "pred": "1"}], {"reward": "pred"}),
    ],
)
def test_the_text_of_a_number_is_a_reward_only_where_there_are_no_types(
    tmp_path, name, rows, mapping
):
    path = write(tmp_path, rows, name)
    if name not in ("s.jsonl", "s.parquet"):
        assert [sample.reward for sample in read_log(path, mapping=mapping)] == [0, 1]
        return
    with pytest.raises(DataError, match=r"must be a finite number .*, got the text '0'"):
        read_log(path, mapping=mapping)


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl", "s.parquet", "s.tsv", "s.csv.gz"])
def test_max_at_k_of_a_table_is_the_mean_over_its_subsets(tmp_path, name):
    results = score_rewards(write(tmp_path, ROWS, name), tmp_path / "run", more_ks=[3])
    assert results.per_problem.ids == ("p2", "p10")
    for k in (1, 2, 3, 4):
        expected = [best_of(REWARDS[p], k) for p in ("p2", "p10")]
        assert results.per_problem.values["max@k"][k] == pytest.approx(expected)
        assert results.metrics["max@k"][k].mean == pytest.approx(np.mean(expected))
    assert read_results(tmp_path / "run/results.json") == results
    assert not (tmp_path / "run/samples.jsonl").exists()


def test_a_threshold_decides_what_passes_and_a_column_can_be_the_reward(tmp_path):
    path = write(tmp_path, ROWS, "s.csv")
    results = score_rewards(path, tmp_path / "a", threshold=0.5)
    assert results.per_problem.values["pass@k"][1] == (0.5, 0.75)
    by_length = score_rewards(path, tmp_path / "b", column="length", threshold=20)
    assert by_length.per_problem.values["max@k"][4] == (30, 30)
    assert by_length.per_problem.values["pass@k"][1] == (0.5, 0.5)
    again = load_results(tmp_path / "a", column="length", threshold=20)
    assert again.per_problem.values["max@k"] == by_length.per_problem.values["max@k"]
    with pytest.raises(InvalidValueError, match="'lenght'; allowed: length; did you mean 'length'"):
        load_results(tmp_path / "a", column="lenght")


def test_fields_are_taken_from_where_the_mapping_says(tmp_path):
    rows = [
        {"task": {"name": row["problem_id"]}, "judges": [{"score": 0}, {"score": row["reward"]}]}
        for row in ROWS
    ]
    mapping = {"problem_id": "task.name", "reward": "judges.1.score"}
    samples = read_log(write(tmp_path, rows, "x.jsonl"), mapping=mapping)
    assert [(r.problem_id, r.sample, r.reward) for r in samples] == [
        (row["problem_id"], row["sample"], row["reward"]) for row in ROWS
    ]
    with pytest.raises(InvalidValueError, match=r"unknown value 'rewards'.*did you mean 'reward'"):
        read_log(tmp_path / "x.jsonl", mapping={"rewards": "judges"})


def test_every_bad_line_is_named_with_file_line_and_field_and_nothing_is_written(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(
        "\n".join(
            [
                '{"problem_id": "p", "sample": 0, "reward": 1}',
                '{"problem_id": "p", "sample": 0, "reward": 1}',
                '{"problem_id": "p", "sample": 1, "reward": "high"}',
                '{"problem_id": "p", "sample": -1, "reward": 1}',
                '{"problem_id": "p", "sample": 2}',
                '{"problem_id": ["p"], "sample": 3, "reward": Infinity}',
                "{",
                '{"problem_id": "p", "sample": 4, "reward": 1e308}',
            ]
        )
    )
    with pytest.raises(DataError) as raised:
        score_rewards(path, tmp_path / "run")
    message = str(raised.value)
    assert "7 bad lines" in message
    for line, text in {
        2: "sample 0 of 'p' occurs twice",
        3: "field 'reward': must be a finite number of at most 1e+100 in size, or empty",
        4: "field 'sample': must be an integer from 0, got -1",
        5: "field 'reward': is missing",
        6: "field 'problem_id': must be text or an integer, got ['p']",
        7: "broken JSON",
        8: "field 'reward': must be a finite number of at most 1e+100 in size",
    }.items():
        assert f"bad.jsonl:{line}: {text}" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "table",
    ["problem_id;reward\np;1\nq;0,5\n", "problem_id;r0;r1\np;1;0\nq;1;-0,5\n"],
    ids=["long", "wide"],
)
def test_a_reward_with_a_decimal_comma_is_refused_and_what_to_write_is_said(tmp_path, table):
    path = tmp_path / "scores.csv"
    path.write_text(table)
    with pytest.raises(DataError, match=r"scores.csv:3.*0,5'; write it without a comma, and with"):
        read_rewards(path)
    path.write_text(table.replace("0,5", "half"))
    with pytest.raises(DataError, match=r"half'$"):
        read_rewards(path)


@pytest.mark.parametrize(
    "table",
    [
        "problem_id,reward\np,1\nq,1_000\n",
        "problem_id,r0,r1\np,1,0\nq,1,1_0.5\n",
        "problem_id,sample,reward\np,0,1\np,1_0,1\n",
    ],
    ids=["long", "wide", "sample"],
)
def test_a_number_with_an_underscore_is_none_in_a_table(tmp_path, table):
    path = tmp_path / "scores.csv"
    path.write_text(table)
    with pytest.raises(DataError, match=r"scores.csv:3: .*must be .*, got '1_0.*'"):
        read_rewards(path)


def test_texts_such_as_2024_01_are_no_column_of_numbers(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("problem_id,reward,month,judge\np,1,2024_01,0.5\np,0,2024_02,1\n")
    assert {name for score in read_rewards(path).scores for name in score.columns} == {"judge"}


@pytest.mark.parametrize("command", ["score", "compare"])
@pytest.mark.parametrize("cell", ['"0,5"', "good"])
def test_a_column_for_the_reward_is_held_to_what_a_reward_is(maxatk, tmp_path, command, cell):
    path = tmp_path / "scores.csv"
    path.write_text(f"problem_id,reward,judge,note\np,1,0.5,x\np,0,,y\nq,0,{cell},z\nq,1,nan,\n")
    files = (
        ["--rewards", path, "--out", "run"] if command == "score" else [f"a={path}", f"b={path}"]
    )
    done = maxatk(command, *files, "--column", "judge")
    assert done.returncode != 0
    assert f"{path}:4: field 'judge': must be a finite number" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "run").exists()
    assert read_rewards(path).results().metrics["max@k"][1].mean == 0.5  # it is not asked for
    path.write_text(path.read_text().replace(cell, "0.25"))
    counts = read_rewards(path, column="judge").results(column="judge").counts
    assert (counts.samples, counts.unscored) == (4, 2)  # the empty cell, and NaN


def test_decimals_as_databases_write_them_are_numbers(tmp_path):
    values = [decimal.Decimal("0.5"), decimal.Decimal("-2"), None]
    rows = [{"problem_id": "p", "reward": value, "judge": value} for value in values]
    samples = read_log(write(tmp_path, rows, "s.parquet"))
    assert [sample.reward for sample in samples] == [0.5, -2.0, None]
    assert [sample.columns for sample in samples] == [{"judge": 0.5}, {"judge": -2.0}, {}]


def repeated(folder, name):
    """Write a table as a join without suffixes leaves it: the names of two columns are equal."""
    import pyarrow
    import pyarrow.parquet

    path = folder / name
    if path.suffix == ".parquet":
        columns = [pyarrow.array(values) for values in (["p", "p"], [0.5, 0.0], [1.0, 1.0])]
        names = ["problem_id", "reward", "reward"]
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), path)
    else:
        path.write_text("problem_id,reward,reward\np,0.5,1\np,1,0\n")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_two_columns_of_one_name_are_refused_by_it(maxatk, tmp_path, name):
    path = repeated(tmp_path, name)
    with pytest.raises(DataError, match=r"2 columns are named 'reward'; every column needs"):
        read_rewards(path)
    done = maxatk("score", "--rewards", name, "--out", "run")
    assert (done.returncode, done.stderr.count("2 columns are named 'reward'")) == (2, 1)
    assert not (tmp_path / "run").exists()


def test_the_index_of_a_frame_is_no_score_that_selects(tmp_path):
    frame = pd.DataFrame({"problem_id": ["p", "p", "q"], "reward": [0.0, 1.0, 1.0]})
    frame.to_csv(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().startswith(",problem_id,reward\n0,p,")
    results = score_rewards(tmp_path / "s.csv", tmp_path / "run")
    assert results.metrics["max@k"][1].mean == 0.75
    assert set(results.metrics) == {"max@k", "pass@k"}  # the index is no score that chooses
    pd.read_csv(tmp_path / "s.csv").to_csv(tmp_path / "again.csv", index=False)
    assert (tmp_path / "again.csv").read_text().startswith("Unnamed: 0,problem_id,reward\n0,p,")
    frame.iloc[::-1].to_parquet(tmp_path / "s.parquet")  # with the column __index_level_0__
    for name in ("again.csv", "s.parquet"):
        assert read_rewards(tmp_path / name).results().metrics == results.metrics


def test_samples_with_and_without_a_number_are_told_apart_in_the_message(tmp_path):
    rows = [{"problem_id": "p", "sample": 1, "reward": 1}, {"problem_id": "p", "reward": 1}]
    write_jsonl(tmp_path / "s.jsonl", rows)
    with pytest.raises(DataError, match=r"occurs twice: number all samples of a problem, or none"):
        read_rewards(tmp_path / "s.jsonl")


def test_columns_without_a_name_may_be_several(tmp_path):
    (tmp_path / "t.csv").write_text("problem_id,reward,,\np,0.5,,\np,1,,\n")
    assert [row.reward for row in read_log(tmp_path / "t.csv")] == [0.5, 1.0]


@pytest.mark.parametrize("row", ["q", "  ", "q,1"])
def test_a_row_with_fewer_values_than_the_header_is_refused_by_its_line(tmp_path, row):
    (tmp_path / "t.csv").write_text(f"problem_id,reward,note\np,1,x\n{row}\np,0,\n")
    with pytest.raises(DataError, match=r"t\.csv:3.* fewer than the header has names"):
        read_rewards(tmp_path / "t.csv")


def test_ids_that_differ_in_leading_zeros_have_one_order(tmp_path):
    ids = [f"task_{zeros}{number}" for number in (1, 2, 10) for zeros in ("", "0", "00", "000")]
    (tmp_path / "t.csv").write_text("problem_id,reward\n" + "".join(f"{i},1\n" for i in ids))
    expected = [name for start in (0, 4, 8) for name in sorted(ids[start : start + 4])]
    assert list(read_rewards(tmp_path / "t.csv").problem_ids) == expected


def test_a_file_that_grows_by_rows_without_a_completion_leaves_no_samples_behind(tmp_path):
    rows = [{"problem_id": "p", "completion": "x", "reward": r} for r in (0, 1)]
    score_rewards(write(tmp_path, rows, "s.jsonl"), tmp_path / "run")
    assert (tmp_path / "run/samples.jsonl").exists()
    rows += [{"problem_id": "p", "reward": r} for r in (0, 1)]
    results = score_rewards(write(tmp_path, rows, "s.jsonl"), tmp_path / "run")
    assert results.per_problem.samples == (4,)
    assert not (tmp_path / "run/samples.jsonl").exists()


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30])
def test_a_sample_number_that_no_table_can_hold_is_refused(tmp_path, number):
    path = write(tmp_path, [{"problem_id": "p", "sample": number, "reward": 1}], "s.jsonl")
    with pytest.raises(DataError, match=r"s\.jsonl:1.*'sample': must be an integer below 2\*\*63"):
        read_log(path)


@pytest.mark.parametrize(("scale", "warns"), [(1e-7, True), (1e-3, False), (0, False)])
def test_rewards_that_rounding_leaves_nothing_of_are_warned_of(maxatk, tmp_path, scale, warns):
    rows = [{"problem_id": "p", "reward": r} for r in (0, -scale, scale)]
    write(tmp_path, rows, "s.csv")
    for arguments in (
        ("score", "--rewards", "s.csv", "--out", "o"),
        ("compare", "a=s.csv", "b=s.csv"),
    ):
        done = maxatk(*arguments)
        assert done.returncode == 0
        assert ("multiply all rewards by a power of ten" in done.stderr) == warns


def test_an_id_of_blanks_alone_names_no_problem(tmp_path):
    (tmp_path / "t.csv").write_text("problem_id,reward\np,1\n  ,0\n")
    with pytest.raises(DataError, match=r"t\.csv:3.* must be text or an integer, got '  '"):
        read_rewards(tmp_path / "t.csv")


def test_an_empty_or_nan_reward_is_left_out_and_never_counts_as_0(tmp_path):
    rows = [{"problem_id": "p", "reward": r} for r in ("1", "", "nan", "1")]
    results = score_rewards(write(tmp_path, rows, "s.csv"), tmp_path / "run")
    assert results.counts.unscored == 2
    assert results.per_problem.values["max@k"][1] == (1.0,)


def test_a_file_without_any_reward_says_how_its_samples_can_be_verified(tmp_path):
    rows = [{"problem_id": "p", "completion": "print(1)"}]
    with pytest.raises(DataError, match=r"holds no rewards.*--samples"):
        read_rewards(write(tmp_path, rows, "s.jsonl"))
    rows = [{"problem_id": "p", "reward": None}]  # of which there is nothing to verify
    with pytest.raises(DataError, match="holds no rewards; all of its rewards are empty"):
        read_rewards(write(tmp_path, rows, "s.jsonl"))


def test_the_command_takes_any_k_and_groups_by_a_field_of_the_problems(maxatk, tmp_path):
    write(tmp_path, ROWS, "s.csv")
    problems = [Problem(p, "", meta={"level": level}) for p, level in (("p2", 1), ("p10", 2))]
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in problems))
    done = maxatk(
        *("score", "--rewards", "s.csv", "--problems", "p.jsonl", "--out", "run"),
        *("--k", 3, "--by", "level", "--threshold", 2),
    )
    assert done.returncode == 0, done.stderr
    assert "max@3" in done.stdout
    assert "max@4" not in done.stdout
    assert "level (problems)" in done.stdout
    write(tmp_path, [{**row, "reward": row["reward"] - 1} for row in ROWS], "worse.csv")
    compared = maxatk("compare", "a=s.csv", "b=worse.csv", "--k", "1", "3", "--format", "csv")
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.splitlines()[0] == (
        "benchmark,metric,k,model,mean,low,high,problems,unscored,zeroed"
    )
    assert [line.split(",")[1:4] for line in compared.stdout.splitlines()[1:]] == [
        *(["max@k", k, model] for k in "13" for model in "ab")
    ]
    grouped = maxatk("compare", "a=run", "b=run", "--by", "level", "--k", "2", "--format", "csv")
    assert {line.split(",")[0] for line in grouped.stdout.splitlines()[1:]} == {
        *("level=1", "level=2")
    }, grouped.stderr


@pytest.mark.parametrize(
    "command",
    [("compare", "a=run", "b=run"), ("report", "a=run", "--out", "x.html"), ("score",)],
)
@pytest.mark.parametrize("k", [0, -3, 5, 1000])
def test_no_command_puts_another_k_in_the_place_of_one_that_cannot_be(maxatk, tmp_path, command, k):
    score_rewards(write(tmp_path, ROWS, "s.csv"), tmp_path / "run")
    more = ("--rewards", "s.csv", "--out", "new") if command == ("score",) else ()
    done = maxatk(*command, *more, f"--k={k}")
    assert done.returncode == 2
    assert f"must be an integer from 1 to the 4 samples of a problem, got {k}" in done.stderr
    assert not (tmp_path / "x.html").exists()
    assert not (tmp_path / "new").exists()


def test_rewards_above_1_show_that_1_is_no_ceiling(tmp_path):
    above = score_rewards(write(tmp_path, ROWS, "a.csv"), tmp_path / "above")
    assert above.metrics["max@k"][1].below == 2
    capped = [{**row, "reward": min(row["reward"], 1.0)} for row in ROWS]
    below = score_rewards(write(tmp_path, capped, "b.csv"), tmp_path / "below")
    assert below.metrics["max@k"][4].below == 0


def dump(folder, step, rewards):
    rows = [
        {"input": p, "output": "x", "gts": "1", "score": r, "step": step}
        for p, row in rewards.items()
        for r in row
    ]
    folder.mkdir(exist_ok=True)
    write_jsonl(folder / f"{step}.jsonl", rows)


@pytest.mark.parametrize(
    "paths", [["dumps"], ["dumps/*.jsonl"], ["dumps/10.jsonl", "dumps/9.jsonl"]]
)
def test_dumps_of_a_training_become_max_at_k_over_its_steps(maxatk, tmp_path, paths):
    steps = {9: {"p": [0, 0.5], "q": [1, 0]}, 10: {"p": [1, 0.5], "r": [1, 1]}}
    for step, rewards in steps.items():
        dump(tmp_path / "dumps", step, rewards)
    done = maxatk("score", "--rewards", *paths, "--out", "curve", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    curve = {
        (row["step"], row["k"]): row["mean"]
        for row in json.loads(done.stdout)["steps"]
        if row["metric"] == "max@k"
    }
    assert curve == {(9, 1): 0.375, (9, 2): 0.75, (10, 1): 0.875, (10, 2): 1.0}
    assert list(curve) == [(9, 1), (9, 2), (10, 1), (10, 2)]
    page = maxatk("report", "curve/10", "--train", "rl=curve", "--out", "page.html")
    assert page.returncode == 0, page.stderr
    assert "max@2" in (tmp_path / "page.html").read_text()
    assert read_results(tmp_path / "curve/9/results.json").ids == ("p", "q")


def as_wide_json(rows):
    rewards = {}
    for row in rows:
        rewards.setdefault(row["problem_id"], []).append(row["reward"])
    return json.dumps(rewards)


@pytest.mark.parametrize(
    "name", ["w.json", "w.jsonl.gz", "W.CSV", "w.TSV", "w.Csv.GZ", "w.PARQUET", "w.txt", "l.json"]
)
def test_what_score_reads_is_read_by_compare_and_report_too(maxatk, tmp_path, name):
    path = write(tmp_path, ROWS, "t" + name[1:].lower()) if name != "w.txt" else tmp_path / "t"
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    if name == "w.json":
        path.write_text(as_wide_json(ROWS))
    elif name in ("w.txt", "l.json"):
        path.write_text(lines)
    elif name == "w.jsonl.gz":
        path.write_bytes(gzip.compress(lines.encode()))
    path.rename(tmp_path / name)
    write(tmp_path, ROWS, "plain.csv")
    scored = maxatk("score", "--rewards", name, "--out", "run")
    assert scored.returncode == 0, scored.stderr
    done = maxatk("compare", f"a={name}", "b=plain.csv", "--format", "json")
    assert done.returncode == 0, done.stderr
    means = {
        (row["model"], row["metric"], row["k"]): row["mean"]
        for row in json.loads(done.stdout)["scores"]
    }
    of_a = {key[1:]: mean for key, mean in means.items() if key[0] == "a"}
    assert of_a == {key[1:]: mean for key, mean in means.items() if key[0] == "b"}
    page = maxatk("report", f"a={name}", "--out", "page.html")
    assert page.returncode == 0, page.stderr


def test_results_are_read_under_any_name_and_damage_is_told_of_the_right_form(tmp_path):
    results = score_rewards(write(tmp_path, ROWS, "s.csv"), tmp_path / "run")
    (tmp_path / "run/results.json").rename(tmp_path / "base.json")
    assert load_results(tmp_path / "base.json") == results
    (tmp_path / "base.json").write_text(json.dumps({"per_problem": {}}))
    with pytest.raises(DataError, match=r"base.json: not a results object"):
        load_results(tmp_path / "base.json")
    (tmp_path / "base.json").write_text("{")
    with pytest.raises(DataError, match=r"base.json: not a JSON file"):
        load_results(tmp_path / "base.json")


def test_packed_files_of_a_folder_are_steps_too(maxatk, tmp_path):
    for step in (1, 2):
        dump(tmp_path / "dumps", step, {"p": [0, step]})
    plain = tmp_path / "dumps/2.jsonl"
    (tmp_path / "dumps/2.JSONL.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    done = maxatk("score", "--rewards", "dumps", "--out", "curve", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    assert {row["step"] for row in json.loads(done.stdout)["steps"]} == {1, 2}


MAX_AT_2 = ("max@k", 2)


@pytest.mark.parametrize("paths", ["dumps", "dumps/*.jsonl"])
def test_a_training_with_one_step_so_far_is_one_already(maxatk, tmp_path, paths):
    for step in (1, 2):
        dump(tmp_path / "dumps", step, {"p": [0, step]})
        done = maxatk("score", "--rewards", paths, "--out", "curve", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["steps"]
        means = {row["step"]: row["mean"] for row in rows if (row["metric"], row["k"]) == MAX_AT_2}
        assert means == {at: float(at) for at in range(1, step + 1)}


def maxima(maxatk, *paths):
    """Score the files of steps into `curve`; return max@2 by step, and what was said aside."""
    done = maxatk("score", "--rewards", *paths, "--out", "curve", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["steps"]
    means = {row["step"]: row["mean"] for row in rows if (row["metric"], row["k"]) == MAX_AT_2}
    return means, done.stderr


@pytest.mark.parametrize("torn_at", [0, 20, -3])
@pytest.mark.parametrize("paths", ["dumps", "dumps/*.jsonl"])
def test_a_step_that_is_being_written_is_left_out_until_it_is_whole(
    maxatk, tmp_path, paths, torn_at
):
    for step in (1, 2):
        dump(tmp_path / "dumps", step, {"p": [0, step], "q": [0, 0]})
    last = tmp_path / "dumps/2.jsonl"
    whole = last.read_bytes()
    last.write_bytes(whole[:torn_at])
    means, aside = maxima(maxatk, paths)
    assert means == {1: 0.5}
    assert "note: step 2 is left out: dumps/2.jsonl is not yet written to its end" in aside
    last.write_bytes(whole.rstrip())  # whole, though its last line has no newline
    means, aside = maxima(maxatk, paths)
    assert means == {1: 0.5, 2: 1.0}
    assert "left out" not in aside
    last.unlink()
    (tmp_path / "dumps/1.jsonl").write_bytes(whole[:20])
    done = maxatk("score", "--rewards", paths, "--out", "other")
    assert done.returncode == 2
    assert "is not yet written to its end" in done.stderr


def test_a_step_whose_file_has_grown_is_scored_anew_and_another_file_is_refused(maxatk, tmp_path):
    dump(tmp_path / "dumps", 1, {"p": [0, 1]})
    dump(tmp_path / "dumps", 2, {"p": [0, 1], "q": [0, 0]})
    last = tmp_path / "dumps/2.jsonl"
    lines = last.read_text().splitlines(keepends=True)
    last.write_text("".join(lines[:2]))
    assert maxima(maxatk, "dumps")[0] == {1: 1.0, 2: 1.0}
    last.write_text("".join(lines))
    assert maxima(maxatk, "dumps")[0] == {1: 1.0, 2: 0.5}
    assert read_results(tmp_path / "curve/2/results.json").ids == ("p", "q")
    dump(tmp_path / "dumps", 2, {"p": [1, 1], "q": [0, 0], "r": [1, 1]})
    done = maxatk("score", "--rewards", "dumps", "--out", "curve")
    assert done.returncode == 2
    assert "rewards.sha256" in done.stderr


def test_a_folder_of_one_run_is_not_made_one_of_several_nor_the_other_way(maxatk, tmp_path):
    for step in (1, 2):
        dump(tmp_path / "dumps", step, {"p": [0, step]})
    files = ("dumps/1.jsonl", "dumps/2.jsonl")
    assert maxatk("score", "--rewards", files[0], "--out", "one").returncode == 0
    assert maxatk("score", "--rewards", *files, "--out", "several").returncode == 0
    done = maxatk("score", "--rewards", *files, "--out", "one")
    assert done.returncode == 2
    assert "'one' holds one run, and several files" in done.stderr
    done = maxatk("score", "--rewards", files[0], "--out", "several")
    assert done.returncode == 2
    assert "'several' holds a run for each of several files" in done.stderr


def test_a_step_with_too_few_samples_for_a_k_is_named_and_so_is_what_intervals_are_over(
    maxatk, tmp_path
):
    for step, samples in ((1, 4), (2, 2)):
        rows = [
            {"problem_id": f"p{p}", "reward": float(p == s)}
            for p in range(3)
            for s in range(samples)
        ]
        write_jsonl(tmp_path / f"steps/{step}.jsonl", rows)
    refused = maxatk("score", "--rewards", "steps", "--out", "o", "--k", "4")
    assert refused.returncode == 2
    assert "steps/2.jsonl: k: must be an integer from 1 to the 2 samples" in refused.stderr
    shown = maxatk("score", "--rewards", "steps", "--out", "o", "--k", "1")
    assert "95% intervals over the problems of a step" in " ".join(shown.stdout.split())


def test_a_folder_with_one_file_that_names_no_step_says_how_to_score_it(maxatk, tmp_path):
    (tmp_path / "evals/model").mkdir(parents=True)
    write(tmp_path, ROWS, "evals/model/results.csv")
    above = maxatk("score", "--rewards", "evals", "--out", "o")
    assert "did you mean 'evals/model'?" in above.stderr
    refused = maxatk("score", "--rewards", "evals/model", "--out", "o")
    assert refused.returncode == 2
    assert refused.stderr.endswith("name the file, --rewards evals/model/results.csv\n")
    assert maxatk("score", "--rewards", "evals/model/results.csv", "--out", "o").returncode == 0


def test_files_that_name_no_step_are_refused(maxatk, tmp_path):
    for name in ("a.csv", "b.csv"):
        write(tmp_path, ROWS, name)
    done = maxatk("score", "--rewards", "a.csv", "b.csv", "--out", "curve")
    assert done.returncode == 2
    assert "names that end in their steps" in done.stderr
    done = maxatk("score", "--rewards", "none/*.csv", "--out", "curve")
    assert done.returncode == 2
    assert "no file ending in" in done.stderr
    for paths in (["2.csv"], ["1.csv", "2.csv"]):
        write(tmp_path, ROWS, "1.csv")
        done = maxatk("score", "--rewards", *paths, "--out", "curve")
        assert (done.returncode, done.stderr) == (2, "maxatk: 2.csv: no such file\n")
    done = maxatk("score", "--rewards", "1.csv", "none*.csv", "--out", "curve")
    assert done.returncode == 2
    assert done.stderr.endswith("at none*.csv\n")


def test_other_columns_are_compared_and_reported_by_map(maxatk, tmp_path):
    rows = [{"task": r["problem_id"], "judge": r["reward"]} for r in ROWS]
    write(tmp_path, rows, "a.csv")
    write(tmp_path, rows, "b.tsv")
    flags = ("--map", "problem_id=task", "--map", "reward=judge", "--k", "1", "3")
    compared = maxatk("compare", "a.csv", "b.tsv", "--format", "json", *flags)
    assert compared.returncode == 0, compared.stderr
    assert {row["problems"] for row in json.loads(compared.stdout)["scores"]} == {2}
    page = maxatk("report", "a.csv", "--out", "page.html", *flags)
    assert page.returncode == 0, page.stderr
