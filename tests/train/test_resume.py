"""A run that was stopped in the middle of a buffer goes on as if it had not been."""

import functools
import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import TrainerCallback
from transformers import trainer as trainer_of_transformers

from maxatk.cli.main import main
from maxatk.cli.train import what_is_kept
from maxatk.errors import InvalidValueError
from maxatk.folders import TRAIN_RECORD, TRAINER_STATE, last_checkpoint, read_training
from maxatk.settings import from_mapping
from maxatk.train import MaxAtKTrainer, TrainRecipe, preview, train

from .conftest import text_reward

# A generation serves 4 steps, so that checkpoints 1, 2 and 3 lie inside of one.
SETTINGS = {
    "method": "bon_off_policy_exact",
    "steps_per_generation": 2,
    "gradient_accumulation_steps": 1,
    "num_iterations": 2,
    "max_steps": 6,
    "save_strategy": "steps",
    "save_steps": 1,
    "optim": "adamw_torch",
    "learning_rate": 1e-2,
}
SPLIT = {"per_device_train_batch_size": 4, "num_generations": 8}
GEOMETRIES = {
    "whole groups, running scale": {"advantage_scale": "batch"},
    "split groups": SPLIT,
}


def test_a_resumed_run_does_not_speak_of_tied_weights_as_missing(make_trainer, monkeypatch):
    warnings = []
    monkeypatch.setattr(trainer_of_transformers.logger, "warning", warnings.append)
    settings = {**SETTINGS, "max_steps": 2}
    make_trainer(cls=MaxAtKTrainer, **settings).train()
    again = make_trainer(cls=MaxAtKTrainer, **settings)
    assert again.model.config.tie_word_embeddings
    again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-1")
    assert [text for text in warnings if "missing" in text] == []


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_weights_and_samples_are_those_of_an_uninterrupted_run(make_trainer, geometry):
    settings = {**SETTINGS, **geometry}
    whole = make_trainer(cls=MaxAtKTrainer, **settings)
    whole.train()
    losses = [row["loss"] for row in whole.state.log_history if "loss" in row]
    for stop in (4, 1):  # the last first: a resumed run writes the later checkpoints again
        again = make_trainer(cls=MaxAtKTrainer, **settings)
        again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-{stop}")
        for name, weight in whole.model.state_dict().items():
            torch.testing.assert_close(again.model.state_dict()[name], weight, atol=0, rtol=0)
        resumed = [row["loss"] for row in again.state.log_history if "loss" in row]
        assert resumed == losses, f"resumed from step {stop}"


@pytest.mark.long
def test_later_epochs_of_a_resumed_run_have_the_order_of_an_uninterrupted_one(make_trainer):
    epochs = {"max_steps": -1, "num_train_epochs": 3, "per_device_train_batch_size": 32}
    settings = {**SETTINGS, **epochs, "steps_per_generation": 1, "num_iterations": 1}

    def prompts_seen(trainer):
        batches = [rows["prompt_ids"].flatten().tolist() for _, rows, _ in trainer.generations]
        assert trainer.state.global_step == 9
        return batches

    whole = make_trainer(**settings)
    whole.train()
    expected = prompts_seen(whole)
    assert expected[3:6] != expected[:3], "the prompts have one order: nothing is tested"
    for stop in (7, 3):
        again = make_trainer(**settings)
        again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-{stop}")
        assert prompts_seen(again) == expected[stop:]
        for name, weight in whole.model.state_dict().items():
            torch.testing.assert_close(again.model.state_dict()[name], weight, atol=0, rtol=0)


def test_a_checkpoint_cut_off_by_a_kill_is_passed_over(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step in (2, 10, 11, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-10" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-11" / "trainer_state.json").write_text('{"torn')
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")


def test_a_trainer_passes_over_a_checkpoint_that_was_cut_off(make_trainer):
    settings = {**SETTINGS, "max_steps": 2}
    whole = make_trainer(cls=MaxAtKTrainer, **settings)
    whole.train()
    (Path(whole.args.output_dir) / "checkpoint-2" / "trainer_state.json").unlink()
    again = make_trainer(cls=MaxAtKTrainer, **settings)
    again.train(resume_from_checkpoint=True)
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], weight, atol=0, rtol=0)


def test_a_checkpoint_in_mid_buffer_of_another_number_of_processes_warns(make_trainer):
    trainer = make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 1})
    trainer.train()
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-1"
    (checkpoint / "buffer-0-of-1.pt").rename(checkpoint / "buffer-0-of-2.pt")
    again = make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 2})
    with pytest.warns(UserWarning, match=r"another number of processes than 1; .* is dropped"):
        again.train(resume_from_checkpoint=str(checkpoint))
    assert again.state.global_step == 2


def test_a_rollout_batch_of_a_version_without_a_setting_is_not_trained_on(make_trainer):
    trainer = make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 1})
    trainer.train()
    checkpoint = Path(trainer.args.output_dir) / "checkpoint-1"
    buffer = torch.load(checkpoint / "buffer-0-of-1.pt", weights_only=True)
    del buffer["made_with"]["beta"]
    torch.save(buffer, checkpoint / "buffer-0-of-1.pt")
    again = make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 2})
    with pytest.warns(
        UserWarning, match=r"a training with beta 'unknown' \(now 0.0\).* is dropped"
    ):
        again.train(resume_from_checkpoint=str(checkpoint))
    assert again.state.global_step == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"num_generations": 8},
        {"steps_per_generation": 1},
        {"per_device_train_batch_size": 4, "steps_per_generation": 4},
        {"per_device_train_batch_size": 16, "steps_per_generation": 1},
        {"form": "reinforce"},
        {"beta": 0.1},
        {"method": "bon_loo1"},
    ],
    ids=str,
)
def test_a_rollout_batch_of_other_settings_is_not_trained_on(make_trainer, changes):
    make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 1}).train()
    again = make_trainer(**{**SETTINGS, "max_steps": 3, **changes})
    names = [name for name in changes if name != "steps_per_generation"]
    (name,) = names or ["steps_per_generation"]
    with pytest.warns(UserWarning, match=rf"a training with .*{name} .*\(now .* is dropped"):
        again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-1")
    assert again.state.global_step == 3
    assert len(again.generations) >= 1
    rows = again.args.per_device_train_batch_size
    assert {len(batch.inputs["completion_ids"]) for batch in again.seen} == {rows}


def test_settings_that_leave_the_rollout_batch_as_it_is_may_change(make_trainer):
    make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, "max_steps": 1}).train()
    again = make_trainer(**{**SETTINGS, "max_steps": 3, "learning_rate": 1e-3})
    again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-1")
    assert again.generations == []


@pytest.mark.long
def test_a_killed_run_ends_with_the_weights_of_one_that_was_not(
    tmp_path, started, model_folder, toy_recipe
):
    slow = {"max_completion_length": 40, "max_steps": 8}  # enough to be killed in time
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(toy_recipe(**SETTINGS | slow)))
    killed = tmp_path / "killed"
    whole = tmp_path / "whole"
    command = [sys.executable, "-m", "maxatk", "train", str(recipe), f"out={killed}"]
    process = started(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (killed / "checkpoint-3").is_dir() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert main(["train", str(recipe), f"out={killed}"]) == 0
    assert main(["train", str(recipe), f"out={whole}"]) == 0
    expected = load_file(whole / "model.safetensors")
    untrained = load_file(model_folder / "model.safetensors")
    assert any((weight != untrained[name]).any() for name, weight in expected.items())
    for name, weight in load_file(killed / "model.safetensors").items():
        torch.testing.assert_close(weight, expected[name], atol=0, rtol=0)
    assert "log_history" in json.loads((killed / "train.json").read_text())


def test_a_finished_training_is_extended_by_more_steps(tmp_path, toy_recipe):
    changes = {"save_strategy": "steps", "save_steps": 1, "lr_scheduler_type": "constant"}

    def run(name, **trainer):
        recipe = toy_recipe(**changes, **trainer)
        out = tmp_path / name
        return train(from_mapping(TrainRecipe, {**recipe, "out": str(out)}, where="recipe"))

    run("extended", max_steps=2)
    extended = run("extended", max_steps=3)
    whole = run("whole", max_steps=3)
    record = json.loads((extended / "train.json").read_text())
    assert record["resumed_from"] == "checkpoint-2"
    assert record["recipe"]["trainer"]["max_steps"] == 3
    assert [row["step"] for row in record["log_history"] if "reward" in row] == [1, 2, 3]
    weights = [load_file(out / "model.safetensors") for out in (extended, whole)]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=0, rtol=0)
    with pytest.raises(InvalidValueError, match="max_steps: 3 in the folder, 2 now"):
        run("extended", max_steps=2)
    for checkpoint in extended.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    with pytest.raises(InvalidValueError, match="no checkpoint from which its training could"):
        run("extended", max_steps=4)


def test_a_training_goes_on_with_the_steps_and_the_schedule_of_now(tmp_path, toy_recipe):
    """A checkpoint has those of before, and transformers goes on with them."""

    def run(name, **trainer):
        recipe = {**toy_recipe(save_strategy="steps", **trainer), "out": str(tmp_path / name)}
        return train(from_mapping(TrainRecipe, recipe, where="recipe"))

    schedule = {"lr_scheduler_type": "linear", "learning_rate": 1e-2}
    run("extended", max_steps=1, save_steps=1, logging_steps=1, **schedule)
    extended = run("extended", max_steps=2, save_steps=5, logging_steps=5, **schedule)
    state = read_training(extended / "checkpoint-2", TRAINER_STATE)
    assert (state["save_steps"], state["logging_steps"]) == (5, 5)
    assert [row["step"] for row in state["log_history"] if "reward" in row] == [1]
    whole = run("whole", max_steps=2, **schedule)  # whose second step has half of the rate
    folders = (extended, whole, extended / "checkpoint-1")
    weights, expected, before = [load_file(folder / "model.safetensors") for folder in folders]
    assert any((weight != before[name]).any() for name, weight in expected.items())
    for name, weight in weights.items():
        torch.testing.assert_close(weight, expected[name], atol=0, rtol=0)


def test_a_training_killed_behind_its_last_step_takes_no_further_one(toy_recipe):
    """As its model was written, whose folder may be full."""
    changes = {"save_strategy": "steps", "learning_rate": 1e-2, "lr_scheduler_type": "constant"}
    recipe = from_mapping(TrainRecipe, toy_recipe(**changes), where="recipe")
    out = train(recipe)
    weights = (out / "model.safetensors").read_bytes()
    finished = read_training(out)
    unfinished = {name: value for name, value in finished.items() if name != "log_history"}
    (out / TRAIN_RECORD).write_text(json.dumps(unfinished))
    (out / "model.safetensors").unlink()
    train(recipe)
    assert (out / "model.safetensors").read_bytes() == weights
    again = read_training(out)
    assert again["resumed_from"] == "checkpoint-2"
    logs = [record["log_history"] for record in (finished, again)]
    assert [row["step"] for row in logs[1] if "reward" in row] == [1, 2]
    assert logs[1] == [row for row in logs[0] if "train_loss" not in row]
    assert last_checkpoint(out) == str(out / "checkpoint-2")


def test_a_training_does_not_go_on_from_checkpoints_of_the_model_alone(toy_recipe):
    """Optimizer and schedule would begin anew in its middle."""
    changes = {"save_strategy": "steps", "save_steps": 1, "save_only_model": True}
    recipe = from_mapping(TrainRecipe, toy_recipe(**changes), where="recipe")
    out = train(recipe)
    assert train(recipe) == out  # a finished one is left alone
    longer = from_mapping(TrainRecipe, toy_recipe(**changes, max_steps=3), where="recipe")
    for look in (train, preview):
        with pytest.raises(InvalidValueError, match=r"\(trainer.save_only_model\), so no training"):
            look(longer)
    assert what_is_kept(out).startswith("its checkpoints hold the model alone")


# Two micro-batches a step; checkpoints lie between rollout batches, and hold no buffer.
INTERRUPTED = {"gradient_accumulation_steps": 2, "save_steps": 2}
TRAININGS = {
    "on-policy, own rollouts": {"method": "bon_loo1", "num_iterations": 1, "rollouts": "own"},
    "off-policy, whole groups": {"method": "bon_off_policy_exact", "advantage_scale": "batch"},
    "off-policy, split groups": SPLIT,
    "on-policy, two iterations": {"method": "bon_loo1"},
}


def at_call(number):
    """Return a function that is a Ctrl-C at its call of that number, and nothing at others."""
    calls = itertools.count(1)

    def call(*_):
        if next(calls) == number:
            signal.raise_signal(signal.SIGINT)

    return call


class BetweenMicroBatches(TrainerCallback):
    def __init__(self, ctrl_c):
        self.ctrl_c = ctrl_c

    def on_substep_end(self, *_, **__):
        self.ctrl_c()


def within_loss(ctrl_c):
    """Return a hook of a model's forward passes that calls `ctrl_c` in those with gradients."""

    def hook(*_):
        if torch.is_grad_enabled():
            ctrl_c()

    return hook


def without_seconds(history):
    """Return the rows of a log without what depends on the clock."""
    clocks = ("seconds/", "step_time", "train_", "profiling/")
    return [
        {name: value for name, value in row.items() if not name.startswith(clocks)}
        for row in history
    ]


PLACES = ("rollout", "between micro-batches", "forward pass of the loss")
# One of every place and one of either policy are tried with `make test`.
TRIED_FIRST = {
    ("on-policy, own rollouts", "between micro-batches"),
    ("off-policy, whole groups", "rollout"),
    ("off-policy, whole groups", "forward pass of the loss"),
}
INTERRUPTIONS = [
    pytest.param(
        settings,
        place,
        id=f"{name}-{place}",
        marks=() if (name, place) in TRIED_FIRST else pytest.mark.long,
    )
    for name, settings in TRAININGS.items()
    for place in PLACES
]


@pytest.mark.parametrize(("settings", "place"), INTERRUPTIONS)
def test_the_same_trainer_goes_on_after_ctrl_c(make_trainer, tmp_path, settings, place):
    settings = {**SETTINGS, **INTERRUPTED, **settings}
    whole = make_trainer(cls=MaxAtKTrainer, **settings, output_dir=str(tmp_path / "whole"))
    whole.train()

    ctrl_c_in_rewards = at_call(4 if settings["num_iterations"] == 1 else 2)

    @functools.wraps(text_reward)
    def reward(completions, **columns):
        if place == "rollout":
            ctrl_c_in_rewards()
        return text_reward(completions, **columns)

    out = str(tmp_path / "interrupted")
    trainer = make_trainer(cls=MaxAtKTrainer, reward=reward, **settings, output_dir=out)
    if place == "between micro-batches":
        trainer.add_callback(BetweenMicroBatches(at_call(4)))
    if place == "forward pass of the loss":
        trainer.model.register_forward_pre_hook(within_loss(at_call(8)))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train(resume_from_checkpoint=True)
    for name, weight in whole.model.state_dict().items():
        torch.testing.assert_close(trainer.model.state_dict()[name], weight, atol=0, rtol=0)
    history = without_seconds(trainer.state.log_history)
    assert history == without_seconds(whole.state.log_history)
