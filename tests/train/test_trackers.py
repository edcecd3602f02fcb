"""What `report_to` sends to a tracker can be read back from it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.training.group_log import GROUPS
from processes import patience

from .conftest import config

TESTS = Path(__file__).parents[1]


def test_tensorboard_gets_the_groups_of_every_step(make_trainer, monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer = make_trainer(report_to="tensorboard", max_steps=3)
    trainer.train()
    accumulator = EventAccumulator(str(tmp_path / "events"))
    accumulator.Reload()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    for key in ("max@1", "max@2", "max@4", "frac_groups_without_signal", "objective/k"):
        events = accumulator.Scalars(f"train/{key}")
        assert [event.step for event in events] == [1, 2, 3]
        expected = [row[key] for row in logged]
        assert [event.value for event in events] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tracker", "completions"), [("wandb", False), ("wandb", True), ("trackio", False)]
)
def test_other_trackers_get_them_without_a_network(tracker, completions, model_folder, tmp_path):
    if importlib.util.find_spec(tracker) is None:
        pytest.skip(f"needs the package {tracker}")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    here = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    here |= {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "TRACKIO_DIR": str(tmp_path)}
    script = [TESTS / "train" / "tracked.py", tracker, model_folder, tmp_path, int(completions)]
    run = subprocess.run(
        [sys.executable, *map(str, script)],
        env={**os.environ, **here},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(250),
    )
    assert run.returncode == 0, run.stderr[-3000:]
    values = json.loads((tmp_path / "values.json").read_text())
    keys = ["max@1", "max@2", "max@4", "objective/k", "ratio/mean_abs_delta", "seconds/rollout"]
    for key in keys:
        assert values["kept"][f"train/{key}"] == pytest.approx(values["logged"][key])
    rows = [json.loads(line) for line in (tmp_path / GROUPS).read_text().splitlines()]
    texts = [
        {"step": row["step"], "prompt": row["prompt"], **sample}
        for row in rows
        for sample in row.get("samples", ())
    ]
    assert [text["step"] for text in texts] == [1] * 8 + [3] * 8  # two groups of four
    assert [{key: entry[key] for key in texts[0]} for entry in values["texts"]] == (
        [] if completions else texts  # TRL sends a table of its own
    )


def test_an_unknown_tracker_is_refused_with_those_that_exist(tmp_path):
    with pytest.raises(InvalidValueError, match=r"report_to: unknown .*did you mean 'wandb'"):
        config(tmp_path, report_to="wandbb")


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed_is_named(tmp_path, tracker):
    if importlib.util.find_spec(tracker) is not None:
        pytest.skip(f"{tracker} is installed")
    with pytest.raises(MissingDependencyError, match=f"report_to: .*pip install {tracker}"):
        config(tmp_path, report_to=tracker)
