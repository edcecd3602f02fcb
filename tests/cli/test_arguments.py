"""Arguments of a command: flags that are given twice, and what stands among flags."""

import argparse
import warnings

import pytest
import tyro

from maxatk.cli.arguments import merged_flags
from maxatk.cli.main import COMMANDS, entry, main
from maxatk.errors import InvalidValueError


def takes_several(action):
    return bool(action.option_strings) and action.nargs not in (0, 1, None)


def parsers(parser):
    """Yield the parsers of a command: its own, or those of its commands."""
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    yield from ([parser] if not nested else nested[0].choices.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_names_all_flags_that_take_several_values_or_none(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actions = [a for p in parsers(tyro.extras.get_parser(entry(name))) for a in p._actions]
    flags = {action.option_strings[0].lstrip("-") for action in actions if takes_several(action)}
    switches = {
        action.option_strings[0].lstrip("-")
        for action in actions
        if action.option_strings and action.nargs == 0
    }
    if not COMMANDS[name].nested:
        assert flags == set(COMMANDS[name].lists)
        assert switches - {"h"} == set(COMMANDS[name].switches)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a b --k 1 --k 4", "a b --k 1 4"),
        ("--k=1 --out x --k 4 8", "--k 1 4 8 --out x"),
        ("a --x_y -1.5 --map a=b c=d", "a --x-y -1.5 --map a=b c=d"),
        ("a --x 1 b --dry-run c --y=2 d --k 1 2", "a b c d --x 1 --dry-run --y 2 --k 1 2"),
        ("--no-dry-run a --sub.no-dry b --help c", "a b c --no-dry-run --sub.no-dry --help"),
        ("--map a=b --map c=d", "--map a=b c=d"),
        ("train.yaml trainer.k=4", "train.yaml trainer.k=4"),
    ],
)
def test_lists_append(arguments, expected):
    lists = ["k", "map"]
    switches = ["dry-run", "sub.dry"]
    assert merged_flags(arguments.split(), lists=lists, switches=switches) == expected.split()


def test_what_follows_a_flag_stays_there_where_switches_are_not_known():
    arguments = ["check", "--ambiguous", "p.jsonl", "--map", "a=b"]
    assert merged_flags(arguments, lists=["map"], switches=None) == arguments


def test_runs_may_stand_among_the_flags(capsys, tmp_path):
    files = []
    for name, reward in (("a", 1), ("b", 0), ("c", 0)):
        files.append(str(tmp_path / f"{name}.csv"))
        (tmp_path / f"{name}.csv").write_text(f"problem_id,reward\np,{reward}\nq,1\n")
    first, second, third = files
    flags = ["compare", first, "--format", "csv", second, "--allow-other-problems", third]
    assert main(flags) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split(",")[3] for row in rows] == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize(
    "arguments", ["--alpha 0.1 --alpha 0.2", "--alpha=0.1 --k 1 --alpha 0.2", "--b_c 1 --b-c 1"]
)
def test_single_values_are_refused(arguments):
    with pytest.raises(InvalidValueError, match="is given twice, first with"):
        merged_flags(arguments.split(), lists=["k"], switches=[])


def test_a_command_refuses_a_flag_that_is_given_twice(capsys):
    assert main(["compare", "a", "b", "--alpha", "0.1", "--alpha", "0.2"]) == 2
    assert "--alpha: is given twice, first with '0.1'" in capsys.readouterr().err
    assert main(["eval", "x.yaml", "k=[1]", "k=[2]", "--out", "o"]) == 2
