"""A run is written as a table and comes back as the same run."""

import json

import pytest

from maxatk.evaluation.outside import score_rewards
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem

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
    assert again["metrics"].items() >= run["metrics"].items()  # its columns are selections too
    by_length = score_rewards(tmp_path / f"table.{form}", tmp_path / "len", column="length")
    assert by_length["per_problem"]["max@k"]["3"] == [2, 2]


def test_the_lines_of_human_eval_continue_the_prompts(maxatk, run, tmp_path):
    problems = [Problem("a", "print(0", entry_point="f"), Problem("b", "x")]
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in problems))
    done = maxatk(
        *("export", "run", "--to", "human-eval", "--problems", "p.jsonl", "--out", "h.jsonl")
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert [row["completion"] for row in rows[:2]] == [")", "print(1)"]
    assert [row["passed"] for row in rows] == [False, False, True, False, False, False]


def test_a_folder_without_scores_is_refused(maxatk):
    done = maxatk("export", ".", "--to", "jsonl", "--out", "x.jsonl")
    assert (done.returncode, "holds no scores.jsonl" in done.stderr) == (2, True)
