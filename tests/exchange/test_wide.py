"""Tables with a row a problem, multiple choice, and a folder of lm-eval's logs."""

import json

import numpy as np
import pytest

from maxatk import max_at_k
from maxatk.errors import DataError
from maxatk.exchange import read_log
from maxatk.jsonl import write_jsonl

REWARDS = {"p0": [0.0, 1.0, 0.5], "p1": [1.0, 0.0]}


def read(path, **mapping):
    samples = read_log(path, mapping=mapping)
    rewards = {}
    for sample in samples:
        rewards.setdefault(sample.problem_id, {})[sample.sample] = sample.reward
    return rewards


EXPECTED = {name: dict(enumerate(rewards)) for name, rewards in REWARDS.items()}


@pytest.mark.parametrize(
    ("name", "content", "mapping"),
    [
        ("t.csv", "problem_id,r0,r1,r2\np0,0,1,0.5\np1,1,0,\n", {}),
        ("t.csv", "id;try 1;try 2;try 3;level\np0;0;1;0.5;2\np1;1;0;;9\n", {"problem_id": "id"}),
        ("t.csv", "problem_id,2,1,0\np0,0.5,1,0\np1,,0,1\n", {}),
        ("t.json", json.dumps(REWARDS), {}),
        ("t.jsonl", "".join(json.dumps({p: r}) + "\n" for p, r in REWARDS.items()), {}),
        ("t.jsonl", "".join(json.dumps({"q": p, "all": r}) + "\n" for p, r in REWARDS.items()),
         {"problem_id": "q", "reward": "all"}),
    ],
)  # fmt: skip
def test_a_row_may_have_all_samples_of_a_problem(tmp_path, name, content, mapping):
    (tmp_path / name).write_text(content)
    assert read(tmp_path / name, **mapping) == EXPECTED


@pytest.mark.parametrize(
    ("row", "mapping"),
    [
        ('{"p": [0, null, NaN, 1]}', {}),
        ('{"problem_id": "p", "reward": [0, null, NaN, 1]}', {}),
        ('{"id": "p", "all": [0, null, NaN, 1]}', {"problem_id": "id", "reward": "all"}),
    ],
)
def test_null_in_a_list_is_a_sample_without_a_reward_as_nan_is(tmp_path, row, mapping):
    (tmp_path / "t.jsonl").write_text(row)
    assert read(tmp_path / "t.jsonl", **mapping) == {"p": {0: 0.0, 1: None, 2: None, 3: 1.0}}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("problem_id,r0,r2", "field 'reward': is missing"),
        ("problem_id,a0,a1,b0,b1", "field 'reward': is missing"),
        ("problem_id,r5,r6", "field 'reward': is missing"),
        ("id,r0,r1", "field 'problem_id': is missing"),
    ],
)
def test_columns_that_may_be_something_else_are_not_guessed(tmp_path, header, message):
    (tmp_path / "t.csv").write_text(header + "\n" + ",".join("1" * (header.count(",") + 1)) + "\n")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "t.csv")


def choice(doc, right):
    return {
        "doc_id": doc,
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": f"Q{doc}", "arg_1": " a"}},
        "resps": [[["-1.5", "False"]], [["-0.5", "True"]]],
        "filtered_resps": [["-1.5", "False"], ["-0.5", "True"]],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "acc": 1.0,
        "acc_norm": float(right),
    }


def test_multiple_choice_is_rewards_by_any_of_its_metrics(tmp_path, maxatk):
    path = tmp_path / "samples_arc_easy_2026-08-01T10-00-00.000000.jsonl"
    write_jsonl(path, [choice(n, n % 2) for n in range(4)])
    samples = read_log(path)
    assert [sample.reward for sample in samples] == [1.0] * 4
    assert [sample.columns["acc_norm"] for sample in samples] == [0.0, 1.0, 0.0, 1.0]
    done = maxatk(
        "score", "--rewards", path, "--column", "acc_norm", "--out", "o", "--output-format", "json"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["metrics"]
    assert [row["mean"] for row in rows if row["metric"] == "max@k"] == [0.5]


def test_a_folder_of_lm_eval_is_a_task_a_file(tmp_path, maxatk):
    logs = tmp_path / "logs"
    stamp = "2026-08-01T10-00-00.000000.jsonl"
    for task, right in (("arc_easy", 1), ("arc_challenge_2", 0)):
        write_jsonl(
            logs / f"samples_{task}_{stamp}", [{**choice(n, 1), "acc": right} for n in range(3)]
        )
    done = maxatk("score", "--rewards", "logs", "--out", "o", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    means = {row["task"]: row["mean"] for row in json.loads(done.stdout)["tasks"]}
    assert means == {"arc_easy": 1.0, "arc_challenge_2": 0.0}
    assert maxatk("score", "--rewards", "logs", "--out", "o").returncode == 0
    assert sorted(folder.name for folder in (tmp_path / "o").iterdir()) == sorted(means)
    write_jsonl(logs / f"samples_arc_easy_2026-08-02{stamp[10:]}", [choice(0, 1)])
    again = maxatk("score", "--rewards", "logs", "--out", "p")
    assert again.returncode == 2
    assert "are of one task; name one of them" in again.stderr


def test_the_tasks_of_a_folder_of_lm_eval_may_have_filters_of_their_own(tmp_path, maxatk):
    logs = tmp_path / "logs"
    stamp = "2026-08-01T10-00-00.000000.jsonl"
    write_jsonl(logs / f"samples_arc_{stamp}", [{**choice(n, 1), "acc": 0.0} for n in range(3)])
    by_filter = {"strict-match": 1.0, "flexible-extract": 0.0}
    rows = [
        {**choice(n, 1), "filter": name, "acc": right}
        for n in range(3)
        for name, right in by_filter.items()
    ]
    write_jsonl(logs / f"samples_gsm8k_{stamp}", rows)
    score = ("score", "--rewards", "logs", "--out", "o", "--output-format", "json", "--map")
    refused = maxatk(*score, "filter=strict-match")
    assert "samples_arc" in refused.stderr
    assert "--map filter=strict-match,none" in refused.stderr
    done = maxatk(*score, "filter=strict-match,none")
    assert done.returncode == 0, done.stderr
    means = {row["task"]: row["mean"] for row in json.loads(done.stdout)["tasks"]}
    assert means == {"arc": 0.0, "gsm8k": 1.0}


def test_the_digits_of_an_id_of_inspect_are_no_step_of_a_training(tmp_path, maxatk):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("Drjcrk8oaSXQ9yKmL5c6PD", "Drjcrk8oaSXQ9yKmL5c7PD"):
        (logs / f"2026-08-01T10-00-00+00-00_gsm8k-cot_{name}.eval").touch()
    done = maxatk("score", "--rewards", "logs", "--out", "o")
    assert done.returncode == 2
    assert "are of one task; name one of them" in done.stderr


def test_the_help_of_map_says_that_a_choice_may_have_several_names(maxatk):
    for command in ("score", "compare", "report"):
        text = " ".join(maxatk(command, "--help").stdout.replace("│", " ").split())
        assert "filter=strict-match,none" in text, command
        assert "scorer=NAME" in text, command


def test_a_folder_of_lm_eval_with_one_task_so_far_is_a_task_already(tmp_path, maxatk):
    stamp = "2026-08-01T10-00-00.000000.jsonl"
    for tasks in (["arc_easy"], ["arc_easy", "mmlu"]):
        write_jsonl(tmp_path / "logs" / f"samples_{tasks[-1]}_{stamp}", [choice(0, 1)])
        done = maxatk("score", "--rewards", "logs", "--out", "o", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        assert {row["task"] for row in json.loads(done.stdout)["tasks"]} == set(tasks)


def test_a_wide_table_gives_the_metrics_of_a_long_one(tmp_path, maxatk):
    rewards = np.random.default_rng(0).random((5, 4)).round(2)
    lines = [f"q{n}," + ",".join(map(str, row)) for n, row in enumerate(rewards)]
    (tmp_path / "t.csv").write_text("\n".join(["problem_id,s0,s1,s2,s3", *lines, ""]))
    done = maxatk("score", "--rewards", "t.csv", "--out", "o", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    means = {
        row["k"]: row["mean"]
        for row in json.loads(done.stdout)["metrics"]
        if row["metric"] == "max@k"
    }
    for k in (1, 2, 4):
        assert means[k] == pytest.approx(max_at_k(rewards, k).mean(), abs=1e-6)


@pytest.mark.parametrize(
    "name, text",
    [
        ("t.json", '{"p": [0, 1], "lost": []}'),
        ("t.jsonl", '{"problem_id": "p", "reward": [1]}\n{"problem_id": "lost", "reward": []}\n'),
        ("t.csv", "problem_id,r0,r1\np,0,1\nlost,,\n"),
    ],
)
def test_a_problem_without_samples_is_refused(tmp_path, maxatk, name, text):
    (tmp_path / name).write_text(text)
    done = maxatk("score", "--rewards", name, "--out", "o")
    assert done.returncode == 2
    assert "problem 'lost' has no samples; leave its row out" in done.stderr


TEXTS = {"p0": ["a", "b"], "p1": ["c"]}


def texts_of(samples):
    texts = {}
    for sample in samples:
        texts.setdefault(sample.problem_id, {})[sample.sample] = sample.completion
    return texts


@pytest.mark.parametrize("default", ["samples", "table"])
@pytest.mark.parametrize(
    ("names", "mapping"),
    [
        (("problem_id", "completion"), {}),
        (("id", "outputs"), {"problem_id": "id", "completion": "outputs"}),
    ],
)
def test_a_row_may_have_all_completions_of_a_problem(tmp_path, default, names, mapping):
    rows = [dict(zip(names, (name, texts), strict=True)) for name, texts in TEXTS.items()]
    write_jsonl(tmp_path / "s.jsonl", rows)
    samples = read_log(
        tmp_path / "s.jsonl", default="table" if mapping else default, mapping=mapping
    )
    assert texts_of(samples) == {name: dict(enumerate(texts)) for name, texts in TEXTS.items()}


def test_completions_of_a_row_share_its_prompt_and_answer_and_later_rows_go_on(tmp_path):
    row = {"problem_id": "p", "prompt": "1 + 1 =", "answer": 2}
    rows = [{**row, "completion": ["a", "b"]}, {**row, "completion": ["c"]}]
    write_jsonl(tmp_path / "s.jsonl", rows)
    samples = read_log(tmp_path / "s.jsonl")
    assert texts_of(samples) == {"p": {0: "a", 1: "b", 2: "c"}}
    assert {(sample.prompt, sample.answer) for sample in samples} == {("1 + 1 =", "2")}


def test_rewards_and_completions_of_a_row_belong_together(tmp_path):
    row = {"problem_id": "p", "reward": [0.0, 1.0], "completion": ["a", "b"]}
    write_jsonl(tmp_path / "s.jsonl", [row])
    samples = read_log(tmp_path / "s.jsonl")
    assert [(sample.reward, sample.completion) for sample in samples] == [(0.0, "a"), (1.0, "b")]
    # What is verified has no use for a reward, of whatever form.
    write_jsonl(tmp_path / "s.jsonl", [{**row, "reward": 0.5, "sample": [4, 2]}])
    samples = read_log(tmp_path / "s.jsonl", default="samples")
    assert texts_of(samples) == {"p": {4: "a", 2: "b"}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"completion": []}, "problem 'p' has no samples; leave its row out"),
        ({"reward": 1.0}, "field 'reward': must be a list, got 1.0"),
        ({"sample": 0}, "field 'sample': must be a list, got 0"),
        ({"sample": [0]}, "field 'sample': 1 value for the 2 samples of the row"),
        ({"reward": [1.0]}, "field 'completion': 2 values for the 1 sample of the row"),
    ],
)
def test_what_does_not_fit_the_completions_of_a_row_is_refused(tmp_path, fields, message):
    row = {"problem_id": "p", "completion": ["a", "b"], **fields}
    write_jsonl(tmp_path / "s.jsonl", [row])
    with pytest.raises(DataError, match=message):
        read_log(tmp_path / "s.jsonl")


def test_samples_without_a_completion_say_which_fields_they_have(tmp_path):
    write_jsonl(tmp_path / "s.jsonl", [{"problem_id": "p", "completions": ["a"]}])
    with pytest.raises(DataError, match=r"missing field 'completion'; got \['completions', 'pro"):
        read_log(tmp_path / "s.jsonl", default="samples")
