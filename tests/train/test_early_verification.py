"""Verification that begins while a rollout batch is sampled: same rewards, and nothing is left."""

import json
import threading

import pytest
from datasets import Dataset

from maxatk.records import TestCase
from maxatk.rewards import load_reward
from maxatk.train import MaxAtKTrainer
from maxatk.verifier import Verifier, outcomes
from maxatk.verifier.extract import Extracted

from .conftest import PROMPTS, config

TESTS = [TestCase(input="", output=text).to_json() for text in ("0", "0\n", "1")]


class OfLengths(Verifier):
    """A verifier to which any completion is a program, so that an untrained model has rewards."""

    def program_of(self, completion, entry_point, language):
        return Extracted(f"print({len(completion) % 4})")


@pytest.fixture
def taken(monkeypatch):
    """Set once a worker has taken a program; programs that print 3 fail in the verifier itself."""
    event = threading.Event()
    verdict = outcomes.verdict

    def watched(zygote, job, limits):
        event.set()
        if job.program == "print(3)":
            raise OSError("a worker is lost")
        return verdict(zygote, job, limits)

    monkeypatch.setattr(outcomes, "verdict", watched)
    return event


def make(folder, out, reward, *, cls=MaxAtKTrainer, **changes):
    rows = [{"prompt": prompt, "tests": TESTS} for prompt in PROMPTS]
    return cls(
        model=str(folder),
        reward_funcs=reward,
        args=config(out, **{"rollouts": "own", **changes}),
        train_dataset=Dataset.from_list(rows),
    )


def log_of(trainer):
    """The log without times, and without what only a reward of ours tells."""
    left_out = ("second", "time", "verifier", "failed")
    trainer.train()
    return [
        {
            key: json.dumps(value)
            for key, value in row.items()
            if not any(part in key for part in left_out)
        }
        for row in trainer.state.log_history
    ]


@pytest.mark.parametrize("changes", [{}, {"groups_with_signal": True}])
def test_rewards_are_those_of_a_verification_after_sampling(model_folder, tmp_path, taken, changes):
    class Waiting(MaxAtKTrainer):
        """Calls the reward functions when the first verdict is on its way already."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            score = self._score

            def waiting(*rows):
                assert taken.wait(120)
                taken.clear()
                return score(*rows)

            self._score = waiting

    with OfLengths(workers=1) as verifier:
        ours = load_reward("continuous", verifier=verifier)

        def continuous(**columns):  # to the trainer a function like any user's
            return ours(**columns)

        early = log_of(make(model_folder, tmp_path, ours, cls=Waiting, **changes))
        taken.clear()
        after = log_of(make(model_folder, tmp_path, continuous, **changes))
    assert early == after
    assert any(float(row.get("rewards/continuous/std", 0)) > 0 for row in early)


def test_an_interrupt_while_sampling_leaves_no_verdict_behind(
    model_folder, tmp_path, taken, monkeypatch
):
    def interrupted(trainer, place, ids):
        verify_early(trainer, place, ids)
        assert taken.wait(120)
        raise KeyboardInterrupt

    verify_early = MaxAtKTrainer._verify_early
    monkeypatch.setattr(MaxAtKTrainer, "_verify_early", interrupted)
    with OfLengths(workers=1) as verifier:
        reward = load_reward("continuous", verifier=verifier)
        with pytest.raises(KeyboardInterrupt):
            make(model_folder, tmp_path, reward).train()
        completions = ["", "a", "ab", "abc"]
        rows = {"prompts": [""] * 4, "completions": completions, "tests": [TESTS] * 4}
        assert reward(**rows) == [2 / 3, 1 / 3, 0, None]
