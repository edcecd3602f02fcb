"""A run that was stopped in the middle of a buffer goes on as if it had not been."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.jsonl import write_jsonl
from maxatk.train import MaxAtKTrainer
from maxatk.train.run import last_checkpoint

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
WHOLE, SPLIT = {}, {"per_device_train_batch_size": 4, "num_generations": 8}
LAG = {"rollout_lag": 3, "num_iterations": 1}  # a generation serves 2 steps
GEOMETRIES = {
    "whole groups": WHOLE,
    "split groups": SPLIT,
    "whole groups, lag": {**WHOLE, **LAG},
    "split groups, lag": {**SPLIT, **LAG},
    "whole groups, running scale": {"advantage_scale": "batch"},
}


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_weights_and_samples_are_those_of_an_uninterrupted_run(make_trainer, geometry):
    settings = {**SETTINGS, **geometry}
    whole = make_trainer(cls=MaxAtKTrainer, **settings)
    whole.train()
    losses = [row["loss"] for row in whole.state.log_history if "loss" in row]
    for stop in (4, 3, 1):  # the last first: a resumed run writes the later checkpoints again
        again = make_trainer(cls=MaxAtKTrainer, **settings)
        again.train(resume_from_checkpoint=f"{again.args.output_dir}/checkpoint-{stop}")
        for name, weight in whole.model.state_dict().items():
            torch.testing.assert_close(again.model.state_dict()[name], weight, atol=0, rtol=0)
        resumed = [row["loss"] for row in again.state.log_history if "loss" in row]
        assert resumed == losses, f"resumed from step {stop}"


def test_a_checkpoint_of_another_lag_is_refused(make_trainer):
    make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, **LAG}).train()
    again = make_trainer(cls=MaxAtKTrainer, **{**SETTINGS, **LAG, "rollout_lag": 2})
    checkpoint = Path(again.args.output_dir) / "checkpoint-4"
    for found in (3, 0):
        with pytest.raises(InvalidValueError, match=f"rollout_lag: 2 .* allowed: {found}"):
            again.train(resume_from_checkpoint=str(checkpoint))
        (checkpoint / "lag.pt").unlink(missing_ok=True)


def test_a_checkpoint_cut_off_by_a_kill_is_passed_over(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step in (2, 10, 11, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-10" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-11" / "trainer_state.json").write_text('{"torn')
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")


@pytest.mark.parametrize("lag", [0, 3])
def test_killed_runs_end_with_the_weights_of_one_that_was_not(
    tmp_path, started, model_folder, mini_problems, lag
):
    problems, reward = tmp_path / "problems.jsonl", tmp_path / "own.py"
    write_jsonl(problems, (p.problem.to_json() for p in mini_problems))
    reward.write_text(
        "def letters(completions, **_):\n    return [len(set(text)) / 99 for text in completions]\n"
    )
    trainer = {**SETTINGS, "k": 2, "num_generations": 4, "per_device_train_batch_size": 8}
    trainer |= {"max_completion_length": 40, "max_steps": 8}  # slow enough to be killed in time
    trainer |= {"rollout_lag": lag, "num_iterations": 1 if lag else 2}
    trainer |= {"use_cpu": True, "report_to": "none"}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        yaml.safe_dump(
            {
                "model": str(model_folder),
                "problems": str(problems),
                "out": "overridden",
                "reward": f"{reward}:letters",
                "trainer": trainer,
            }
        )
    )

    killed, whole = tmp_path / "killed", tmp_path / "whole"
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
