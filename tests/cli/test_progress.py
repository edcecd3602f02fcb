"""What progress says of the shards of a cluster; no cluster is needed."""

import json
from types import SimpleNamespace

import pytest

from maxatk.cli.progress import progress_of

PARTS = {"samples": "samples drawn", "scores": "verified"}
DONE = {"samples": [1_200, 800], "scores": list(range(9))}


def work(part):
    return [SimpleNamespace(node=f"node {n}", done=done) for n, done in enumerate(DONE[part])]


def report(mode, work=lambda _: ()):
    with progress_of("eval", mode, parts=PARTS, work=work) as told:
        told(2_000, 2_000, "samples")
        told(2_000, 2_000, "scores")


def test_a_line_has_the_numbers_of_few_shards_and_the_range_of_many(capsys):
    report("auto", work)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "eval: 2,000 of 2,000 samples drawn (1,200 + 800), "
        "2,000 of 2,000 verified (9 shards, 0 to 8 each)"
    )


def test_a_line_says_nothing_of_shards_where_there_are_none(capsys):
    report("auto")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "eval: 2,000 of 2,000 samples drawn, 2,000 of 2,000 verified"
    )


@pytest.mark.parametrize("given", [(), (work,)])
def test_json_names_the_nodes(capsys, monkeypatch, given):
    monkeypatch.setattr("maxatk.cli.progress.end_with_parent", lambda: None)  # pytest's own stdin
    report("json", *given)
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (row["done"], row["total"]) == (2_000, 2_000)
    if given:
        assert row["shards"]["samples"] == [
            {"node": "node 0", "done": 1_200},
            {"node": "node 1", "done": 800},
        ]
        assert len(row["shards"]["scores"]) == 9
    else:
        assert "shards" not in row


def test_none_says_nothing(capsys):
    report("none", work)
    assert capsys.readouterr() == ("", "")
