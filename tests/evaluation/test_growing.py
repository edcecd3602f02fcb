"""A finished run grows: more samples, more problems, and what cannot grow is refused."""

import dataclasses
import json

import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation.load import passing_reward
from maxatk.sampling import ModelSettings, SamplingSettings
from runs import evaluated, rows_of

SETTINGS = SamplingSettings(samples=4, max_new_tokens=4, seed=1)


@pytest.fixture(scope="module")
def run(tiny_model, verifier):
    def evaluate_into(problems, out, **changes):
        settings = dataclasses.replace(SETTINGS, **changes)
        running = ModelSettings(device="cpu", batch_size=4)
        return evaluated(
            *(tiny_model, problems, out),
            settings=settings,
            verifier=verifier,
            model_settings=running,
        )

    return evaluate_into


def lines(folder, name):
    rows = rows_of(folder / name)
    for row in rows:
        row.pop("seconds", None)
    return sorted(rows, key=lambda row: (row["problem_id"], row["sample"]))


def test_a_run_that_grew_is_the_run_that_was_that_large_from_the_start(run, problems, tmp_path):
    run(problems[:2], tmp_path / "grown")
    first = (tmp_path / "grown/samples.jsonl").read_bytes()
    run(problems[:2], tmp_path / "grown", samples=8)
    grown = run(problems, tmp_path / "grown", samples=8)
    whole = run(problems, tmp_path / "whole", samples=8)
    assert (tmp_path / "grown/samples.jsonl").read_bytes().startswith(first)
    for name in ("samples.jsonl", "scores.jsonl"):
        assert lines(tmp_path / "grown", name) == lines(tmp_path / "whole", name)
    for key in ("metrics", "per_problem", "counts"):
        assert getattr(grown, key) == getattr(whole, key)
    settings = [
        json.loads((tmp_path / folder / "manifest.json").read_text())
        for folder in ("grown", "whole")
    ]
    assert settings[0]["settings"] == settings[1]["settings"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 2}, "sampling.samples: 4 in the folder, 2 now"),
        ({"samples": 8, "seed": 2}, "sampling.seed: 1 in the folder, 2 now"),
        ({"samples": 8, "temperature": 0.5}, "sampling.temperature: 1.0 in the folder, 0.5 now"),
    ],
)
def test_what_cannot_grow_is_refused_with_the_reason(run, problems, tmp_path, change, message):
    run(problems[:1], tmp_path / "run")
    before = (tmp_path / "run/manifest.json").read_bytes()
    with pytest.raises(InvalidValueError, match=rf"{message}(?s:.*)a run can grow by more samples"):
        run(problems[:1], tmp_path / "run", **change)
    assert (tmp_path / "run/manifest.json").read_bytes() == before


def test_a_run_with_another_threshold_is_the_same_run_and_says_so(
    tiny_model, verifier, problems, tmp_path
):
    for threshold in (0.5, 0.75):
        evaluated(
            *(tiny_model, problems[:1], tmp_path / "run"),
            settings=SETTINGS,
            verifier=verifier,
            model_settings=ModelSettings(device="cpu", batch_size=4),
            threshold=threshold,
        )
        (tmp_path / "run/results.json").unlink()
        assert passing_reward(tmp_path / "run") == threshold


def test_problems_are_added_after_those_there_are_and_never_changed(run, problems, tmp_path):
    run(problems[:2], tmp_path / "run")
    for other_problems in (problems[1:], problems[:1], [problems[1], problems[0], problems[2]]):
        with pytest.raises(InvalidValueError, match=r"problems\.sha256"):
            run(other_problems, tmp_path / "run")
    changed = dataclasses.replace(problems[0], prompt="other")
    with pytest.raises(InvalidValueError, match=r"problems\.sha256"):
        run([changed, *problems[1:]], tmp_path / "run")
