"""What progress says, as lines and as JSON."""

import json

from maxatk.cli.progress import progress_of

PARTS = {"samples": "samples drawn", "scores": "verified"}


def report(mode):
    with progress_of("eval", mode, parts=PARTS) as progress:
        progress(2_000, 2_000, "samples")
        progress(2_000, 2_000, "scores")


def test_a_line_has_the_numbers_of_every_part(capsys):
    report("auto")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "eval: 2,000 of 2,000 samples drawn, 2,000 of 2,000 verified"
    )


def test_json_has_the_mean_of_the_parts(capsys, monkeypatch):
    monkeypatch.setattr("maxatk.cli.progress.end_with_parent", lambda: None)  # pytest's own stdin
    report("json")
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"done": 1_000, "total": 2_000}
    assert last == {"done": 2_000, "total": 2_000}


def test_json_has_the_parts_that_are_counted_alone(capsys, monkeypatch):
    monkeypatch.setattr("maxatk.cli.progress.end_with_parent", lambda: None)
    parts = {**PARTS, "steps": "optimizer steps"}
    with progress_of("distill", "json", parts=parts, counted=("samples", "scores")) as progress:
        progress(2_000, 2_000, "samples")
        progress(2_000, 2_000, "scores")
        progress(34, 34, "steps")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"done": 1_000, "total": 2_000}, {"done": 2_000, "total": 2_000}]


def test_none_says_nothing(capsys):
    report("none")
    assert capsys.readouterr() == ("", "")
