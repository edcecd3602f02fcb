"""What a training makes of conversations: answers, records, counts of tokens, environments."""

import json

import numpy as np
import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import maxatk
from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.train import MaxAtKTrainer
from maxatk.verifier import CodeReward, Verifier
from tool_model import call, save_tool_model

from .conftest import GROUP, config

ROWS = [{"prompt": [{"role": "user", "content": f"find {n}"}], "n": n} for n in range(8)]


class Guess:
    """An environment whose reward is that of its best guess."""

    def reset(self, **_row):
        self.best = 0.0

    def guess(self, x: int) -> str:
        """Guess the number.

        Args:
            x: The guess.

        Returns:
            Whether it is right.
        """
        self.best = max(self.best, 1 - abs(x - 3) / 9)
        return "right" if x == 3 else "wrong 1 2 3"


class Rewarding(Guess):
    """The same, with the reward as TRL asks for it."""

    def get_reward(self):
        return self.best


def closeness(environments, **_):
    return [environment.best for environment in environments]


@pytest.fixture(scope="module")
def guesser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guesser")
    return str(save_tool_model(folder, [call("guess", x=x) for x in range(6)]))


def make(folder, guesser, reward, *, cls=MaxAtKTrainer, environment=Guess, **changes):
    return cls(
        model=guesser,
        reward_funcs=reward,
        args=config(folder, max_completion_length=300, **changes),
        train_dataset=Dataset.from_list(ROWS),
        environment_factory=environment,
    )


class Spy(MaxAtKTrainer):
    """Keeps the groups and the output of the first rollout batch, and the completions."""

    first = None

    def _score(self, rows, prompts, completions, ids):
        self.completions = completions
        return super()._score(rows, prompts, completions, ids)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        if self.first is None:
            self.first = (self._rollout, output, self.completions)
        return output


def test_answers_are_read_from_the_last_message_of_the_policy(tmp_path, guesser):
    path = tmp_path / "own.py"
    path.write_text(
        "TEXTS = []\n"
        "def last_word(text):\n"
        "    TEXTS.append(text)\n"
        "    return text.split()[-1:] == ['3']\n"
    )
    answers = f"{path}:last_word"
    trainer = make(
        tmp_path, guesser, closeness, cls=Spy, method="majority", answers=answers, max_steps=1
    )
    trainer.train()
    texts = load_function(answers, field="answers").__globals__["TEXTS"]
    groups, _, completions = trainer.first
    expected = [
        [turn["content"] for turn in talk if turn["role"] == "assistant"][-1]
        for talk in completions
    ]
    assert texts[: len(expected)] == expected
    assert any(len(talk) > 1 for talk in completions)
    answers = np.array([text.split()[-1:] == ["3"] for text in expected]).reshape(-1, GROUP)
    for numbers, wanted in zip(groups.answers, answers, strict=True):
        assert len(set(numbers)) == len(set(wanted))


def test_the_record_has_transcripts_and_the_tokens_of_the_policy(tmp_path, guesser):
    trainer = make(tmp_path, guesser, closeness, cls=Spy, max_steps=1)
    trainer.train()
    _, output, completions = trainer.first
    of_policy = (output["completion_mask"] * output["tool_mask"]).sum(dim=1).tolist()
    assert of_policy != output["completion_mask"].sum(dim=1).tolist()
    lines = (tmp_path / "groups.jsonl").read_text().splitlines()
    groups = [line for line in map(json.loads, lines) if "group" in line]
    samples = [sample for group in groups for sample in group["samples"]]
    assert [sample["tokens"] for sample in samples] == of_policy
    for sample, talk in zip(samples, completions, strict=True):
        assert "'role'" not in sample["text"]
        calls = [c for turn in talk for c in turn.get("tool_calls") or ()]
        assert sample["text"].count("guess(x=") == len(calls)
        if len(talk) > 1:
            assert sample["text"].startswith("assistant: ")
            assert sample["text"].count("\n\ntool guess: ") == sum(
                turn["role"] == "tool" for turn in talk
            )
    assert {group["prompt"] for group in groups} <= {row["prompt"][0]["content"] for row in ROWS}


def test_a_conversation_is_not_judged_by_what_a_tool_said():
    program = "```python\nprint(9)\n```"
    talk = [
        {"role": "assistant", "content": program},
        {"role": "tool", "name": "run", "content": "```python\nprint(1)\n```"},
    ]
    tests = [[{"input": "", "output": "1"}]]
    with Verifier(workers=1) as verifier:
        assert CodeReward(verifier)(None, [talk], tests=tests) == [0.0]
        assert CodeReward(verifier)(None, [talk[1:]], tests=tests) == [0.0]


def plain_config(folder):
    return GRPOConfig(
        output_dir=str(folder), num_generations=GROUP, per_device_train_batch_size=8, max_steps=1,
        max_completion_length=60, use_cpu=True, bf16=False, report_to="none", save_strategy="no",
        scale_rewards="none",
    )  # fmt: skip


def plain(folder, guesser, reward, environment):
    return GRPOTrainer(
        model=guesser,
        reward_funcs=reward,
        args=plain_config(folder),
        train_dataset=Dataset.from_list(ROWS),
        environment_factory=environment,
    )


def test_best_of_beside_an_environment_with_a_reward_of_its_own_is_refused(tmp_path, guesser):
    wrapped = maxatk.best_of(closeness, k=2)
    with pytest.raises(InvalidValueError, match=r"best_of: Rewarding\.get_reward: TRL would add"):
        plain(tmp_path, guesser, wrapped, Rewarding).train()
    plain(tmp_path, guesser, wrapped, Guess).train()


def test_a_list_that_trl_has_added_to_is_not_counted_twice(tmp_path, guesser):
    functions = [closeness]
    plain(tmp_path / "plain", guesser, functions, Rewarding)
    assert len(functions) == 2  # TRL's own doing
    for place in range(2):
        trainer = make(tmp_path / str(place), guesser, functions, environment=Rewarding)
        assert trainer.reward_func_names == ["closeness", "Rewarding"]
        assert len(trainer.reward_weights) == 2
    assert len(functions) == 2


def test_groups_with_signal_says_why_it_takes_no_environment(tmp_path, guesser):
    with pytest.raises(InvalidValueError, match="no environments, which TRL resets once"):
        make(tmp_path, guesser, closeness, groups_with_signal=True)
