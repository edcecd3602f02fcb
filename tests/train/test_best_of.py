"""TRL's own GRPOTrainer with a reward of `best_of` takes the steps of MaxAtKTrainer."""

import copy
import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from maxatk import advantages, best_of
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS
from maxatk.train import MaxAtKTrainer
from maxatk.training.group_log import training_log
from maxatk.view.watched_training import WatchedTraining
from oracles import subsets

from .conftest import GROUP, PROMPTS, SpyTrainer, config, reward_with_gaps, text_reward


def plain_config(folder, **changes):
    """The settings of `config` for TRL's trainer."""
    args = {
        key: value
        for key, value in config(folder).to_dict().items()
        if key in ("output_dir", "num_generations", "per_device_train_batch_size")
        or key in ("max_completion_length", "max_steps", "learning_rate", "optim", "loss_type")
        or key in ("lr_scheduler_type", "use_cpu", "report_to", "save_strategy", "disable_tqdm")
        or key in ("seed", "logging_steps", "gradient_checkpointing", "beta", "temperature")
    }
    return GRPOConfig(**{**args, "scale_rewards": "none", "bf16": False, **changes})


def make(kind, args, reward, model_folder, prompts):
    return kind(model=str(model_folder), reward_funcs=reward, args=args, train_dataset=prompts)


def trained(trainer):
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    after = trainer.model.state_dict()
    moved = max((after[name] - before[name]).abs().max() for name in after)
    assert moved > 1e-4
    return after


async def async_reward(completions, **columns):
    return text_reward(completions, **columns)


@pytest.mark.parametrize("reward", [text_reward, reward_with_gaps, async_reward])
def test_an_unmodified_trainer_takes_the_same_steps(tmp_path, model_folder, prompts, reward):
    args = plain_config(tmp_path / "plain")
    plain = make(GRPOTrainer, args, best_of(reward, k=2), model_folder, prompts)
    plain_weights = trained(plain)
    args = config(tmp_path / "ours", method="bon_centred", rollouts="trl")
    ours = make(MaxAtKTrainer, args, reward, model_folder, prompts)  # seeds the sampling again
    expected = trained(ours)
    for name, weights in expected.items():
        torch.testing.assert_close(plain_weights[name], weights, atol=2e-6, rtol=0)
    logged = [line for line in plain.state.log_history if "best_of/reward" in line]
    theirs = [line for line in ours.state.log_history if "max@2" in line]
    assert [line["best_of/max@2"] for line in logged] == pytest.approx(
        [line["max@2"] for line in theirs], nan_ok=True
    )


def first_letters(completions, wanted, **_):
    """A reward by another column than the prompt: the share of letters that the row wants."""
    values = []
    for text, letters in zip(completions, wanted, strict=True):
        values.append(sum(letter in letters for letter in text) / max(1, len(text)))
    return values


def test_rows_of_one_prompt_with_other_tests_are_groups_of_their_own(tmp_path, model_folder):
    """The prompt is there twice with other columns: groups of one text meet in a batch."""
    rows = Dataset.from_list(
        [{"prompt": PROMPTS[0], "wanted": letters} for letters in ("abcdefgh", "mnopqrstuvw")]
    )
    args = plain_config(tmp_path / "plain")
    plain = make(GRPOTrainer, args, best_of(first_letters, k=2), model_folder, rows)
    by_best_of = trained(plain)
    args = config(tmp_path / "ours", method="bon_centred", rollouts="trl")
    ours = make(SpyTrainer, args, first_letters, model_folder, rows)
    by_trainer = trained(ours)
    for name, weights in by_trainer.items():
        torch.testing.assert_close(by_best_of[name], weights, atol=2e-6, rtol=0)
    _, batch, rewards = ours.generations[0]
    in_groups = rewards.numpy().reshape(-1, GROUP)
    assert (in_groups.max(axis=1) > in_groups.min(axis=1)).all(), "a group has no signal"
    method = METHODS["bon_centred"]
    on_policy = np.zeros(GROUP)
    enumerated = [
        GROUP * np.array(subsets.advantages(list(group), on_policy, 2, method))
        for group in in_groups
    ]
    logged = batch["advantages"].reshape(-1, GROUP).numpy()
    np.testing.assert_allclose(logged, enumerated, atol=1e-6)


def test_a_trainer_that_divides_by_the_deviation_is_refused_before_a_step(
    tmp_path, model_folder, prompts
):
    args = plain_config(tmp_path, scale_rewards="group")
    trainer = make(GRPOTrainer, args, best_of(text_reward, k=2), model_folder, prompts)
    with pytest.raises(InvalidValueError, match="scale_rewards"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_k_of_a_whole_group_is_refused_before_a_step(tmp_path, model_folder, prompts):
    args = plain_config(tmp_path)
    trainer = make(GRPOTrainer, args, best_of(text_reward, k=GROUP), model_folder, prompts)
    with pytest.raises(InvalidValueError, match="k: must be below the samples of a prompt"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_the_record_of_an_unmodified_trainer_is_that_of_the_own_one(
    tmp_path, model_folder, prompts, capsys
):
    args = plain_config(tmp_path / "plain")
    reward = best_of(reward_with_gaps, k=2, folder=tmp_path / "plain")
    trained(make(GRPOTrainer, args, reward, model_folder, prompts))
    args = config(tmp_path / "ours", method="bon_centred", rollouts="trl")
    trained(make(MaxAtKTrainer, args, reward_with_gaps, model_folder, prompts))

    plain = WatchedTraining(tmp_path / "plain")
    ours = WatchedTraining(tmp_path / "ours")
    assert plain.last_step == ours.last_step == 3
    assert (plain.about["method"], plain.about["k"]) == ("bon_centred", 2)
    assert sorted(plain.groups) == sorted(ours.groups) == [1, 2, 3]
    for step in ours.groups:
        for place in range(2):
            group = plain.group(step, place)
            expected = ours.group(step, place)
            assert group["prompt"] == expected["prompt"]
            for sample, of_ours in zip(group["samples"], expected["samples"], strict=True):
                assert sample["text"] == of_ours["text"]
                assert sample["tokens"] == of_ours["tokens"]
                assert sample["reward"] == pytest.approx(of_ours["reward"], nan_ok=True)
                assert sample["advantage"] == pytest.approx(of_ours["advantage"], abs=1e-6)
    by_step = {row["step"]: row for row in ours.log if "loss" in row}
    rows = [row for row in training_log(tmp_path / "plain") if "max@2" in row]
    assert len(rows) == 3
    for step, row in enumerate(rows, 1):
        for key in ("reward", "max@1", "max@2", "frac_groups_without_signal"):
            assert row[key] == pytest.approx(by_step[step][key], nan_ok=True)
    # What the trainer has logged is there up to the last call, in the row of best_of of its step.
    losses = [row for row in training_log(tmp_path / "plain") if "loss" in row]
    assert losses == rows[:2]
    assert all("grad_norm" in row for row in losses)
    main(["diagnose", str(tmp_path / "plain")])
    assert "rules fire on" in capsys.readouterr().out


def test_the_record_goes_on_where_a_training_is_resumed(tmp_path, model_folder, prompts):
    folder = tmp_path / "out"
    saved = {"save_strategy": "steps", "save_steps": 2}

    def trainer(steps):
        args = plain_config(folder, max_steps=steps, **saved)
        reward = best_of(text_reward, k=2, folder=folder)
        return make(GRPOTrainer, args, reward, model_folder, prompts)

    trainer(3).train()
    trainer(5).train(resume_from_checkpoint=str(folder / "checkpoint-2"))
    lines = [json.loads(line) for line in (folder / "groups.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "group" in line] == [
        step for step in range(1, 6) for _ in range(2)
    ]
    assert [line["step"] for line in lines if "max@2" in line.get("log", {})] == [1, 2, 3, 4, 5]


class Interrupted(Exception):
    """What ends a training in a notebook, as Ctrl-C does."""


class InterruptedTrainer(GRPOTrainer):
    """TRL's trainer, which is interrupted in the backward pass of one step."""

    interrupted_at = None

    def training_step(self, *arguments, **settings):
        loss = super().training_step(*arguments, **settings)
        if self.state.global_step + 1 == self.interrupted_at:
            raise Interrupted
        return loss


def recorded_steps(folder, key):
    """The steps of the rows of the log that have a key."""
    lines = [json.loads(line) for line in (folder / "groups.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if key in line.get("log", {})]


def test_the_same_function_and_trainer_go_on_behind_an_interrupted_step(
    tmp_path, model_folder, prompts
):
    args = plain_config(tmp_path, max_steps=4, save_strategy="steps", save_steps=2)
    reward = best_of(text_reward, k=2, folder=tmp_path)
    trainer = make(InterruptedTrainer, args, reward, model_folder, prompts)
    trainer.interrupted_at = 3
    with pytest.raises(Interrupted):
        trainer.train()
    assert recorded_steps(tmp_path, "max@2") == [1, 2, 3]
    trainer.interrupted_at = None
    trainer.train(resume_from_checkpoint=True)
    assert recorded_steps(tmp_path, "max@2") == [1, 2, 3, 4]
    watched = WatchedTraining(tmp_path)
    assert {step: len(groups) for step, groups in watched.groups.items()} == dict.fromkeys(
        range(1, 5), 2
    )


def test_a_training_killed_right_behind_a_checkpoint_keeps_the_loss_of_its_step(
    tmp_path, model_folder, prompts
):
    def trainer(steps):
        args = plain_config(tmp_path, max_steps=steps, save_strategy="steps", save_steps=1)
        reward = best_of(text_reward, k=2, folder=tmp_path)
        return make(GRPOTrainer, args, reward, model_folder, prompts)

    trainer(3).train()  # what is there when a process is killed between checkpoint 3 and step 4
    assert recorded_steps(tmp_path, "loss") == [1, 2]
    resumed = trainer(5)
    resumed.train(resume_from_checkpoint=True)
    assert recorded_steps(tmp_path, "loss") == [1, 2, 3, 4]
    losses = [row["loss"] for row in training_log(tmp_path) if "loss" in row]
    of_trainer = [row["loss"] for row in resumed.state.log_history if "loss" in row]
    assert losses == of_trainer[:4]


def test_samples_of_an_evaluation_set_are_not_recorded(tmp_path, model_folder, prompts):
    changes = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8}
    trainer = GRPOTrainer(
        model=str(model_folder),
        reward_funcs=best_of(text_reward, k=2, folder=tmp_path / "out"),
        args=plain_config(tmp_path / "out", max_steps=2, **changes),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(2)),
    )
    trainer.train()
    assert any("eval_reward" in row for row in trainer.state.log_history)
    assert [len(groups) for groups in WatchedTraining(tmp_path / "out").groups.values()] == [2, 2]


def test_a_function_that_serves_a_second_training_begins_its_record_anew(
    tmp_path, model_folder, prompts
):
    reward = best_of(text_reward, k=2, folder=tmp_path)
    for steps in (3, 2):
        make(
            GRPOTrainer, plain_config(tmp_path, max_steps=steps), reward, model_folder, prompts
        ).train()
    watched = WatchedTraining(tmp_path)
    assert watched.last_step == 2
    assert [len(watched.groups[step]) for step in sorted(watched.groups)] == [2, 2]


@pytest.mark.parametrize("method", ["bon_centred", "dr_grpo"])
def test_conversations_are_recorded_as_transcripts_with_the_values_returned(tmp_path, method):
    rewards = [0.0, 1.0, 0.5, 0.0]
    reward = best_of(lambda completions, **_: rewards, k=2, method=method, folder=tmp_path)
    prompt = [{"role": "user", "content": "Write f."}]
    answer = [{"role": "assistant", "content": "def f(): ..."}]
    values = reward(prompts=[prompt] * 4, completions=[answer] * 4, problem_id=["a"] * 4)
    group = WatchedTraining(tmp_path).group(1, 0)
    assert group["id"] == "a"
    assert group["prompt"] == "Write f."
    assert {sample["text"] for sample in group["samples"]} == {"def f(): ..."}
    by_hand = 4 * advantages(np.array([rewards]), method, 2)[0]
    np.testing.assert_allclose(values, by_hand)
    recorded = [sample["advantage"] for sample in group["samples"]]
    np.testing.assert_allclose(recorded, by_hand, atol=1e-6)


def test_a_record_needs_samples_and_a_named_method(tmp_path):
    with pytest.raises(InvalidValueError, match="folder: must be None with `rollouts`"):
        best_of(text_reward, k=2, rollouts="rollout", folder=tmp_path)
    with pytest.raises(InvalidValueError, match="method: must be the name of a method"):
        best_of(text_reward, k=2, method=METHODS["bon_centred"], folder=tmp_path)
