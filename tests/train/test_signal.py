"""Runs that train nothing say so, and what is logged describes the texts of the moment."""

import warnings

import numpy as np
import pytest
from datasets import IterableDataset

from maxatk.errors import InvalidValueError
from maxatk.train import MaxAtKTrainer

from .conftest import PROMPTS, config, text_reward


def always(completions, **_):
    return [0.5] * len(completions)


def test_a_run_without_any_signal_warns_and_its_card_says_so(make_trainer, tmp_path):
    trainer = make_trainer(always, cls=MaxAtKTrainer, max_steps=2)
    with pytest.warns(UserWarning, match="all advantages were 0"):
        trainer.train()
    trainer.create_model_card(model_name="mine")
    assert "Nothing was learned" in (tmp_path / "README.md").read_text()


def test_a_run_with_a_signal_does_not(make_trainer, tmp_path):
    trainer = make_trainer(text_reward, cls=MaxAtKTrainer, max_steps=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*all advantages were 0")
        trainer.train()
    trainer.create_model_card(model_name="mine")
    assert "Nothing was learned" not in (tmp_path / "README.md").read_text()


def test_a_stream_that_ends_before_one_rollout_batch_is_refused(model_folder, tmp_path):
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, per_device_train_batch_size=32, max_steps=2),
        train_dataset=IterableDataset.from_generator(lambda: ({"prompt": p} for p in PROMPTS[:3])),
    )
    with pytest.raises(InvalidValueError, match=r"train_dataset: ended before .* of 8 prompts"):
        trainer.train()


def test_distinct_completions_are_those_of_the_evaluated_batch(model_folder, prompts, tmp_path):
    """An evaluation batch larger than a rollout batch, of which TRL's log keeps the last texts."""
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, max_steps=1, per_device_eval_batch_size=32, max_completion_length=20),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(8)),
    )
    seen = []
    inner = trainer._calculate_rewards

    def noting(inputs, given, completions, ids):
        seen[:] = completions
        return inner(inputs, given, completions, ids)

    trainer._calculate_rewards = noting
    found = trainer.evaluate()
    groups = np.array(seen).reshape(-1, 4)
    assert len(groups) == 8
    expected = np.mean([len(set(group)) / 4 for group in groups])
    assert found["eval_completions/distinct"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("grpo", "the expected mean reward."),
        ("bon_max_second", "the expected reward of the best of all 4 samples."),
        ("bon_off_policy", "the expected max@k for k = 2."),
    ],
)
def test_the_card_names_the_base_and_speaks_of_k_only_where_there_is_one(
    make_trainer, model_folder, tmp_path, method, said
):
    trainer = make_trainer(method=method, cls=MaxAtKTrainer, max_steps=1)
    trainer.train()
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text()
    assert said in card
    assert f"| base model | `{model_folder}` |" in card
    assert ("max@k" in card) == (method == "bon_off_policy")
