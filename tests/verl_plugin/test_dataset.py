"""Problems as verl's parquet: the verifier scores a solution from the columns alone."""

import json

import pytest

from maxatk import Problem, TestCase
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.verifier import compute_score
from maxatk.verl.dataset import write_parquet

parquet = pytest.importorskip("pyarrow.parquet")

PROBLEMS = [
    Problem("one", "Print n + 1.", (TestCase(input="1\n", output="2\n"),), time_limit_s=2.0),
    Problem(
        "two", "Add.", (TestCase(call="add(1, 2)", output="3"),), entry_point="add", source="s"
    ),
]


def test_the_columns_are_enough_to_score_a_solution(tmp_path):
    assert write_parquet(PROBLEMS, tmp_path / "train.parquet") == 2
    first, second = parquet.read_table(tmp_path / "train.parquet").to_pylist()
    assert first["prompt"] == [{"role": "user", "content": "Print n + 1."}]
    assert (first["data_source"], second["data_source"]) == ("maxatk", "s")
    assert second["extra_info"] == {"index": 1, "id": "two"}
    programs = {"one": "print(int(input()) + 1)", "two": "def add(a, b):\n    return a + b"}
    for row in (first, second):
        solution = f"```python\n{programs[row['extra_info']['id']]}\n```"
        truth = row["reward_model"]["ground_truth"]
        verdict = compute_score(row["data_source"], solution, truth, row["extra_info"], workers=1)
        assert (verdict["score"], verdict["total"]) == (1.0, 1.0)


def test_the_command_exports_a_problems_file(tmp_path, capsys):
    source = tmp_path / "problems.jsonl"
    source.write_text("".join(json.dumps(p.to_json()) + "\n" for p in PROBLEMS))
    out = tmp_path / "out" / "train.parquet"
    assert main(["problems", "export", str(source), "--for", "verl", "--out", str(out)]) == 0
    assert parquet.read_table(out).num_rows == 2
    assert "2 problems" in capsys.readouterr().out
    assert main(["problems", "export", str(source), "--for", "verl", "--out", "x.jsonl"]) == 2
    assert "must be a file that ends in .parquet" in capsys.readouterr().err


def test_nothing_to_export_is_refused(tmp_path):
    with pytest.raises(InvalidValueError, match="none to export"):
        write_parquet([], tmp_path / "x.parquet")
