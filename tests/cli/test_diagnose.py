"""`maxatk diagnose` of an evaluation, and of a folder that is neither that nor a training."""

import csv
import io
import json
import shlex

import pytest

from maxatk.cli.main import main
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Score
from runs import write_run


@pytest.fixture
def folder(tmp_path):
    """A run of four problems, solved in 0, 4, 8 and 16 of 16 samples."""
    write_run(
        tmp_path,
        [
            Score(f"p{right}", s, float(s < right), 0, 1, Outcome.SCORED, 0.0)
            for right in (0, 4, 8, 16)
            for s in range(16)
        ],
    )
    return str(tmp_path)


def printed(capsys, *arguments):
    assert main(["diagnose", *arguments]) == 0
    return capsys.readouterr().out


def test_the_tables_of_an_evaluation_are_printed_in_every_format(folder, capsys):
    flags = (folder, "--n", "2", "8", "--k", "1", "4", "--best-of", "4")
    tables = json.loads(printed(capsys, *flags, "--format", "json"))
    assert tables["problems"] == [{"problems": 4, "samples": 16}]
    assert [(row["n"], row["k"]) for row in tables["signal"]] == [(2, 1), (8, 1), (8, 4)]
    mixed = [2 * 4 * 12 / (16 * 15), 2 * 8 * 8 / (16 * 15)]  # of two samples one is right
    assert tables["signal"][0]["share"] == pytest.approx(sum(mixed) / 4)
    assert tables["suggestion"][0]["k"] == 4
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *flags, "--format", "csv"))))
    assert [row["share"] for row in rows] == [str(row["share"]) for row in tables["signal"]]
    for form in ("text", "md", "latex"):
        shown = printed(capsys, *flags, "--format", form).replace("\\_", "_")
        assert "bon_loo1" in shown
        assert "0.233" in shown
    assert "k = 4 (as many as the answers in use)" in printed(capsys, *flags)


def test_the_problems_needed_are_said_to_be_of_samples_that_pass_or_not(tmp_path, capsys):
    rewards = (0.2, 0.4, 0.7, 0.9)  # none passes, and max@k can rise all the same
    scores = [
        Score(f"p{p}", s, reward, 0, 1, Outcome.SCORED, 0.0)
        for p in range(3)
        for s, reward in enumerate(rewards)
    ]
    write_run(tmp_path, scores)
    tables = json.loads(printed(capsys, str(tmp_path), "--format", "json"))
    assert {row["problems"] for row in tables["needed"]} == {None}
    shown = " ".join(printed(capsys, str(tmp_path), "--format", "md").split())
    assert "where a reward is 1 for a sample that passes and 0 for others" in shown


def test_a_run_by_a_column_is_diagnosed_by_that_column(tmp_path, capsys):
    rows = [
        {"problem_id": f"p{p}", "sample": s, "reward": 0.0, "judge": float(s < 2)}
        for p in range(3)
        for s in range(4)
    ]
    write_jsonl(tmp_path / "s.jsonl", rows)
    score_rewards(tmp_path / "s.jsonl", tmp_path / "run", column="judge")
    flags = (str(tmp_path / "run"), "--n", "2", "--best-of", "2", "--format", "json")
    tables = json.loads(printed(capsys, *flags))
    assert tables["signal"][0]["share"] == pytest.approx(2 * 2 * 2 / (4 * 3))
    assert tables["gain"][0]["max@k"] == 0.5


def test_a_folder_that_is_no_run_and_numbers_that_are_not_allowed_are_refused(
    folder, tmp_path, capsys
):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["diagnose", str(empty)]) == 2
    assert "must hold scores.jsonl of an evaluation, or train.json" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path / "nowhere")]) == 2
    assert "nowhere' does not exist" in capsys.readouterr().err
    assert main(["diagnose", folder, "--n", "32"]) == 2
    assert "n: must be at most the 16 samples of a problem" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "diagnose",
        "select --by tokens",
        "export --to parquet --out o.parquet",
        "problems select --out o.jsonl",
        "view",
    ],
)
def test_a_table_in_place_of_a_run_is_refused_with_the_command_that_makes_a_run_of_it(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "my rewards.csv"
    lines = [f"p{p},{s},{int(s > p)}" for p in range(3) for s in range(3)]
    table.write_text("\n".join(["problem_id,sample,reward", *lines]))
    assert main([*name.split(), str(table)]) == 2
    message = capsys.readouterr().err
    assert "is a file, not a folder" in message
    _, *command = shlex.split(message[message.index("maxatk score") :])
    command[command.index("FOLDER")] = "run"
    assert main(command) == 0
    capsys.readouterr()
    assert "groups of 3 are too small for k = 2" in printed(capsys, "run")
