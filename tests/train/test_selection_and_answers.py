"""Training by what lies beside the rewards: a score that selects, and answers."""

import zlib
from pathlib import Path

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.objectives import METHODS, advantages, method_of
from maxatk.train.batch import GROUP_ROW
from maxatk.train.scoring import numbered_answers
from oracles import subsets

from .conftest import GROUP, reward_with_gaps, text_reward
from .expected import CLAMP, sequence_logps

EXAMPLES = Path(__file__).parents[2] / "examples"


class Recorded:
    """A reward function that keeps what it gave, one list a rollout batch."""

    def __init__(self, name, function):
        self.__name__ = name
        self.function = function
        self.given = []
        self.texts = []

    def __call__(self, completions, **_):
        self.given.append([self.function(text) for text in completions])
        self.texts.append(list(completions))
        return self.given[-1]


@pytest.fixture
def truth():
    return Recorded("truth", lambda text: text_reward([text])[0])


@pytest.fixture
def score():
    return Recorded("score", lambda text: zlib.crc32(text.encode()) / 2**32)


def expected(trainer, model_folder, truth, score, method, step):
    """The advantages of the last rollout batch under the policy of a step, by enumeration."""
    policy, rows, _ = trainer.generations[-1]
    now = next(batch.policy for batch in trainer.seen if batch.step == step)
    logs = sequence_logps(model_folder, now, rows) - sequence_logps(model_folder, policy, rows)
    deltas = np.clip(np.expm1(logs), -CLAMP, CLAMP).reshape(-1, GROUP)
    groups = [np.array(x.given[-1]).reshape(-1, GROUP) for x in (truth, score)]
    return GROUP * np.concatenate(
        [
            subsets.advantages(list(r), d, 2, METHODS[method], scores=list(s))
            for r, s, d in zip(*groups, deltas, strict=True)
        ]
    )


@pytest.mark.parametrize("method", ["bon_loo1", "any_k", "bon_off_policy_exact"])
@pytest.mark.parametrize("micro_batch", [4, 2])
def test_the_score_selects_and_is_not_rewarded(
    make_trainer, model_folder, truth, score, method, micro_batch
):
    trainer = make_trainer(
        [truth, score],
        method=method,
        selection="score",
        num_iterations=2,
        max_steps=2,
        per_device_train_batch_size=micro_batch,
        generation_batch_size=8,
    )
    trainer.train()
    for batch in trainer.seen:
        want = expected(trainer, model_folder, truth, score, method, batch.step)
        want_rows = want[batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), want_rows, atol=2e-5)
    assert (want < 0).any()
    logged = next(row for row in trainer.state.log_history if "reward" in row)
    assert logged["reward"] == pytest.approx(np.mean(truth.given[-1]), abs=1e-5)


def test_a_sample_that_is_selected_and_has_no_reward_is_not_logged_as_0(make_trainer, score):
    truth = Recorded("truth", lambda text: reward_with_gaps([text])[0])
    trainer = make_trainer([truth, score], selection="score", max_steps=1, logging_steps=1)
    trainer.train()
    known = [reward for reward in truth.given[-1] if reward is not None]
    assert 0 < len(known) < len(truth.given[-1])
    row = trainer.state.log_history[0]
    assert row["reward"] == pytest.approx(np.mean(known))
    assert row["reward_std"] == pytest.approx(np.std(known, ddof=1))
    assert row["frac_without_reward"] == pytest.approx(1 - len(known) / len(truth.given[-1]))


def test_answers_come_from_a_function_of_the_completion(make_trainer, truth):
    trainer = make_trainer(truth, method="majority", answers="builtins:len", max_steps=1)
    trainer.train()
    groups = np.array(truth.given[-1]).reshape(-1, GROUP)
    lengths = np.array([len(text) for text in truth.texts[-1]]).reshape(-1, GROUP)
    want = GROUP * advantages(groups, "majority", 2, answers=lengths).reshape(-1)
    rows = trainer.seen[0].inputs[GROUP_ROW].numpy()
    got = trainer.seen[0].inputs["advantages"].numpy()
    np.testing.assert_allclose(got, want[rows], atol=1e-6)


def test_an_answer_that_fails_is_named_with_its_text(make_trainer, truth):
    trainer = make_trainer(truth, method="majority", answers="json:loads")
    with pytest.raises(InvalidValueError, match=r"answers: 'json:loads' .* failed on '"):
        trainer.train()
    with pytest.raises(InvalidValueError, match="failed on 'ab': TypeError: unhashable"):
        numbered_answers(list, ["ab"], called="builtins:list")  # without a hash
    answers = {"a": float("nan"), "b": float("nan"), "c": None, "d": 1}
    numbers = numbered_answers(answers.get, list("abcd"), called="mine.py:answer")
    assert numbers.tolist() == [0, 0, 0, 1]


def test_a_selection_names_one_of_several_reward_functions(make_trainer, truth, score):
    with pytest.raises(InvalidValueError, match=r"selection: unknown value 'scores'.*'score'"):
        make_trainer([truth, score], selection="scores")
    with pytest.raises(
        InvalidValueError, match="selection: must be one of several reward functions"
    ):
        make_trainer(truth, selection="truth")


def test_a_statistic_of_ones_own_looks_at_rewards_and_answers(make_trainer, truth):
    method = {"statistic": f"{EXAMPLES}/set_objectives.py:poly_epo"}
    trainer = make_trainer(truth, method=method, answers="builtins:len", max_steps=1)
    trainer.train()
    groups = np.array(truth.given[-1]).reshape(-1, GROUP)
    lengths = [[len(t) for t in truth.texts[-1][i : i + GROUP]] for i in range(0, 8, GROUP)]
    want = GROUP * advantages(groups, method_of(method), 2, answers=lengths).reshape(-1)
    want_rows = want[trainer.seen[-1].inputs[GROUP_ROW].numpy()]
    np.testing.assert_allclose(trainer.seen[-1].inputs["advantages"].numpy(), want_rows, atol=1e-5)
    assert np.abs(want).max() > 0
