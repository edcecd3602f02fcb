"""Answers in several forms through the real math-verify: `make test-formats` installs it."""

import importlib.util
import time

import pytest

from maxatk.errors import DataError, InvalidValueError, MissingDependencyError
from maxatk.records import Problem
from maxatk.rewards import load_reward
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.reward import Reward, RewardPart

installed = importlib.util.find_spec("math_verify") is not None
needed = pytest.mark.skipif(not installed, reason="math-verify is not installed: make test-formats")


@pytest.fixture(scope="module")
def answers():
    reward = AnswerReward()
    yield reward
    reward.close()


@needed
@pytest.mark.parametrize(
    ("gold", "completion", "right"),
    [
        ("2", "2", 1.0),
        ("2", "The answer is $2$.", 1.0),
        ("1/2", r"so we get \boxed{\frac{1}{2}}", 1.0),
        (r"\frac{1}{2}", "0.5", 1.0),
        ("0.5", r"\boxed{\frac{3}{6}}", 1.0),
        (r"2\sqrt{3}", r"$\sqrt{12}$", 1.0),
        ("1000", "It costs 1,000 dollars", 1.0),
        ("x^2+2x+1", r"$(x+1)^2$", 1.0),
        ("p - q", r"\boxed{p-q}", 1.0),
        ("(3, 4)", r"\boxed{(3,4)}", 1.0),
        ("(3, 4)", r"\boxed{4}", 0.0),
        ("2k+2", r"\boxed{2}", 0.0),
        ("3,5,7", r"\boxed{7, 5, 3}", 1.0),
        ("[1, 2]", r"\boxed{[1,2]}", 1.0),
        ("y = 2x + 3", r"\boxed{y=2x+3}", 1.0),
        ("sqrt(2)", r"\boxed{\sqrt{2}}", 1.0),
        ("(C)", r"\boxed{\text{(C)}}", 1.0),
        (r"\$18.90", r"\boxed{18.90}", 1.0),
        ("1e-05", r"\boxed{0.00001}", 1.0),
        ("1e-05", r"\boxed{1}", 0.0),
        ("18 dollars", r"\boxed{18}", 1.0),
        ("20 L", r"\boxed{20}", 1.0),
        ("€18", r"\boxed{18}", 1.0),
        (r"$x^2+2x+1$", r"$(x+1)^2$", 1.0),
        (r"\{1, 2\}", r"\boxed{\{2, 1\}}", 1.0),
        ("4", r"<think>\boxed{3}?</think>It is $4$.", 1.0),
        ("3", r"<think>\boxed{3}?</think>It is $4$.", 0.0),
        ("3", r"<think>\boxed{3}</think>", 1.0),
        ("-3", "3", 0.0),
        ("2", "First 2, then 3", 0.0),
        ("2", "no idea", 0.0),
        ("2", "", 0.0),
    ],
)
def test_equal_answers_in_other_forms_are_right(answers, gold, completion, right):
    assert answers(completions=[completion], answer=[gold]) == [right]


@needed
def test_messages_and_repeated_completions(answers):
    messages = [{"role": "assistant", "content": "4"}]
    assert answers(completions=[messages, "4", "4", "5"], answer=["4"] * 4) == [1.0, 1.0, 1.0, 0.0]


@needed
def test_an_answer_that_is_not_compared_in_time_is_wrong_and_the_next_one_works():
    reward = AnswerReward(timeout_s=0.5)
    assert reward(completions=["1"], answer=["1"]) == [1.0]  # SymPy is imported
    whole = Reward([RewardPart("answer", "answer", function=reward)])
    started = time.monotonic()
    found = whole(["", ""], ["$9^{9^{9^{9}}} + 1$", "7"], answer=["$8^{8^{8^{8}}}$", "7"])
    assert found == [0.0, 1.0]
    assert time.monotonic() - started < 60
    assert not whole.failures
    reward.close()


@needed
def test_problems_need_an_answer_that_is_mathematics(answers):
    with pytest.raises(InvalidValueError, match="'p': has no `answer`"):
        answers.check([Problem("p", "x")])
    with pytest.raises(DataError, match="'p': answer: 'Paris' is not mathematics"):
        answers.check([Problem("q", "x", answer="3"), Problem("p", "x", answer="Paris")])


@pytest.mark.skipif(installed, reason="math-verify is installed")
def test_without_math_verify_the_extra_is_named():
    with pytest.raises(MissingDependencyError, match=r"pip install 'maxatk\[math\]'"):
        load_reward("answer", verifier=None)
