"""What `report_to` sends to a tracker can be read back from it."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers.integrations import integration_utils

from maxatk.errors import InvalidValueError, MissingDependencyError, MissingFileError
from maxatk.settings import from_mapping
from maxatk.train import DistillRecipe, TrainRecipe, distill, preview, train
from maxatk.train.distill import plan_distillation
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


@pytest.mark.parametrize("tracker", ["mlflow", "comet_ml", "azure_ml", "flyte"])
def test_a_tracker_that_nobody_has_set_up_is_refused_before_any_work(tmp_path, tracker):
    name = {"comet_ml": "comet", "azure_ml": "azureml", "flyte": "flytekit"}.get(tracker, tracker)
    if getattr(integration_utils, f"is_{name}_available")():
        pytest.skip(f"{tracker} is there")
    with pytest.raises(MissingDependencyError, match=f"report_to: .*'{tracker}' not installed"):
        config(tmp_path, report_to=["tensorboard", tracker])


def stand_in_for_wandb(monkeypatch, *, mode="online", api_key=None):
    """Put a package in the place of wandb that lets nobody in, and return what it was asked."""
    calls = []

    def login(**_):
        calls.append("login")
        raise RuntimeError("No API key configured.")

    module = types.ModuleType("wandb")
    module.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    module.run = None
    module.login = login
    settings = types.SimpleNamespace(mode=mode, api_key=api_key)
    module.setup = lambda: types.SimpleNamespace(settings=settings)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


@pytest.mark.parametrize("command", ["train", "preview", "distill", "plan"])
def test_wandb_without_a_login_is_refused_before_model_and_data_are_read(
    tmp_path, monkeypatch, command
):
    settings = {"model": str(tmp_path / "no model"), "problems": str(tmp_path / "none.jsonl")}
    on_cpu = {"use_cpu": True, "bf16": False}
    settings |= {"out": str(tmp_path / "out"), "trainer": {**on_cpu, "report_to": "wandb"}}
    if command in ("train", "preview"):
        settings["trainer"] |= {"num_generations": 8, "per_device_train_batch_size": 8}
        recipe = from_mapping(TrainRecipe, settings, where="recipe")
        begin = train if command == "train" else preview
    else:
        recipe = from_mapping(DistillRecipe, {**settings, "k": 1}, where="recipe")
        begin = distill if command == "distill" else plan_distillation
    stand_in_for_wandb(monkeypatch)
    with pytest.raises(InvalidValueError, match="report_to: 'wandb' needs a login, by `wandb log"):
        begin(recipe)
    for known in ({"mode": "offline"}, {"api_key": "a" * 40}):
        calls = stand_in_for_wandb(monkeypatch, **known)
        with pytest.raises((InvalidValueError, MissingFileError)) as other:
            begin(recipe)
        assert "report_to" not in str(other.value)
        assert calls == []
    assert not (tmp_path / "out").exists()


def test_a_distillation_refuses_a_tracker_that_is_not_there_before_it_draws(tmp_path):
    if importlib.util.find_spec("trackio") is not None:
        pytest.skip("trackio is installed")
    settings = {"model": "m", "problems": "p", "out": str(tmp_path / "out"), "k": 1}
    settings["trainer"] = {"report_to": "trackio", "use_cpu": True, "bf16": False}
    recipe = from_mapping(DistillRecipe, settings, where="recipe")
    with pytest.raises(MissingDependencyError, match=r"report_to: .*pip install trackio"):
        distill(recipe)


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_a_tracker_that_is_not_installed_is_named(tmp_path, tracker):
    if importlib.util.find_spec(tracker) is not None:
        pytest.skip(f"{tracker} is installed")
    with pytest.raises(MissingDependencyError, match=f"report_to: .*pip install {tracker}"):
        config(tmp_path, report_to=tracker)
