"""Arguments of a command: flags that are given twice, and what stands among flags."""

import json
import warnings

import pytest
import tyro

from maxatk.cli.commands import COMMANDS
from maxatk.cli.main import entry, inner_commands, main
from maxatk.cli.merged_flags import ASSIGNMENT, NUMBER, WHOLE, FlagKinds, merged_flags
from maxatk.errors import InvalidValueError
from maxatk.training import Objective, TrainingRecord

CALLS = [(name, inner) for name, row in COMMANDS.items() for inner in row.inner or [None]]


def takes_several(action):
    return bool(action.option_strings) and action.nargs not in (0, 1, None)


def of_call(name, inner):
    """Return what tyro parses for a command, and the kinds of its flags in the table."""
    if inner is None:
        return entry(name), COMMANDS[name].flags
    return inner_commands(name)[inner], COMMANDS[name].inner[inner]


@pytest.mark.parametrize(("name", "inner"), CALLS)
def test_the_table_of_commands_names_all_flags_that_take_several_values_or_none(name, inner):
    parsed, kinds = of_call(name, inner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actions = tyro.extras.get_parser(parsed)._actions
    lists = {action.option_strings[0].lstrip("-") for action in actions if takes_several(action)}
    switches = {
        action.option_strings[0].lstrip("-")
        for action in actions
        if action.option_strings and action.nargs == 0
    }
    assert lists == set(kinds.lists)
    assert switches - {"h"} == set(kinds.switches)
    for action in filter(takes_several, actions):
        form = kinds.lists[action.option_strings[0].lstrip("-")]
        takes_whole_numbers = action.metavar == "[INT [INT ...]]"
        assert (form is WHOLE) == takes_whole_numbers
        assert (form is NUMBER) == (action.metavar == "[FLOAT [FLOAT ...]]")


@pytest.mark.parametrize("name", [name for name, row in COMMANDS.items() if row.inner])
def test_the_table_names_the_commands_of_a_command(name):
    assert list(inner_commands(name)) == list(COMMANDS[name].inner)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a b --k 1 --k 4", "a b --k 1 4"),
        ("--k=1 --out x --k 4 8", "--k 1 4 8 --out x"),
        ("a --x_y -1.5 --map a=b c=d", "a --x-y -1.5 --map a=b c=d"),
        ("a --x 1 b --dry-run c --y=2 d --k 1 2", "a b c d --x 1 --dry-run --y 2 --k 1 2"),
        ("--no-dry-run a --sub.no-dry b --help c", "a b c --no-dry-run --sub.no-dry --help"),
        ("--map a=b --map c=d", "--map a=b c=d"),
        ("--k 1 4 a b", "a b --k 1 4"),
        ("--map a=b c --share .5 0.1 1e-2 4x", "c 4x --map a=b --share .5 0.1 1e-2"),
        ("--k a b", "b --k a"),
        ("train.yaml trainer.k=4", "train.yaml trainer.k=4"),
    ],
)
def test_lists_append(arguments, expected):
    lists = {"k": WHOLE, "map": ASSIGNMENT, "share": NUMBER}
    kinds = FlagKinds(lists=lists, switches=("dry-run", "sub.dry"))
    assert merged_flags(arguments.split(), kinds) == expected.split()


@pytest.fixture
def rewards(tmp_path):
    """Three files of rewards of two problems."""
    files = []
    for name, reward in (("a", 1), ("b", 0), ("c", 0)):
        files.append(str(tmp_path / f"{name}.csv"))
        (tmp_path / f"{name}.csv").write_text(f"problem_id,reward\np,{reward}\nq,1\n")
    return files


def test_runs_may_stand_among_the_flags(capsys, rewards):
    first, second, third = rewards
    flags = ["compare", first, "--format", "csv", second, "--allow-other-problems", third]
    assert main(flags) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split(",")[3] for row in rows] == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize("flags", [["--k", "1"], ["--metric", "max@k"], ["--map", "reward=reward"]])
def test_runs_may_stand_behind_a_flag_of_several_values(capsys, rewards, flags):
    assert main(["compare", *flags, *rewards, "--format", "csv"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split(",")[3] for row in rows] == ["a.csv", "b.csv", "c.csv"]


def test_runs_that_a_flag_has_taken_are_told_of(capsys, rewards, tmp_path):
    page = tmp_path / "page.html"
    assert main(["report", "--out", str(page), "--train", "t", *rewards]) == 2
    assert "belongs to it" in capsys.readouterr().err
    assert not page.exists()


def test_the_record_of_another_trainer_is_named_where_a_report_needs_one_of_train(
    capsys, rewards, tmp_path
):
    record = TrainingRecord(tmp_path, Objective(method="grpo", k=1), group_size=2, steps=1)
    record.log(1, {"loss": 0.5})
    page = tmp_path / "page.html"
    assert main(["report", *rewards, "--train", str(tmp_path), "--out", str(page)]) == 2
    assert "no such file, but groups.jsonl, as of a training that" in capsys.readouterr().err
    assert not page.exists()


def test_the_commands_of_a_command_take_arguments_among_flags(capsys, tmp_path):
    problem = {"id": "p", "prompt": "?", "tests": [{"input": "", "output": "1"}]}
    solution = {"problem_id": "p", "sample": 0, "completion": "print(1)"}
    file = tmp_path / "problems.jsonl"
    file.write_text(json.dumps(problem) + "\n")
    (tmp_path / "problems.solutions.jsonl").write_text(json.dumps(solution) + "\n")
    assert main(["problems", "show", str(file), "--format", "json", "p"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"][0]["id"] == "p"
    assert main(["problems", "check", "--ambiguous", str(file), "--format", "json"]) == 0
    assert main(["recipes", "list", "--format", "csv", "--format", "md"]) == 2
    assert "--format: is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", ["--alpha 0.1 --alpha 0.2", "--alpha=0.1 --k 1 --alpha 0.2", "--b_c 1 --b-c 1"]
)
def test_single_values_are_refused(arguments):
    with pytest.raises(InvalidValueError, match="is given twice, first with"):
        merged_flags(arguments.split(), FlagKinds(lists={"k": WHOLE}))


def test_a_command_refuses_a_flag_that_is_given_twice(capsys):
    assert main(["compare", "a", "b", "--alpha", "0.1", "--alpha", "0.2"]) == 2
    assert "--alpha: is given twice, first with '0.1'" in capsys.readouterr().err
    assert main(["eval", "x.yaml", "k=[1]", "k=[2]", "--out", "o"]) == 2
