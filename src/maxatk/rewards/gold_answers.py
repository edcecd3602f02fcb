"""Expected answers against themselves: which ones would not be recognised in a completion?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward

FORMS = {
    "boxed": r"Therefore the answer is $\boxed{@}$.",
    "displayed box": "So we get\n\\[\n\\boxed{@}\n\\]\n",
    "fbox": r"\fbox{@}",
    "formula": "The final answer is $@$.",
    "text": "Answer: @",
}
"""How models usually write an answer, which stands for @."""


def check_answers(
    problems: Sequence[Problem], reward: AnswerReward
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Compare every expected answer with itself in each of `FORMS`.

    Returns counts, and a row for each problem with the forms that are not recognised, or with the
    reason why the answer is no mathematics. Problems without an answer are left out.
    """
    answered = [problem for problem in problems if problem.answer is not None]
    failures: list[dict[str, Any]] = []
    readable = []
    for problem, reason in zip(answered, reward.reasons_against(answered), strict=True):
        if reason:
            failures.append(_failure(problem, [], reason))
        else:
            readable.append(problem)
    completions = [
        form.replace("@", str(problem.answer).strip().strip("$"))
        for problem in readable
        for form in FORMS.values()
    ]
    gold = [str(problem.answer) for problem in readable for _ in FORMS]
    rewards = reward(completions=completions, answer=gold)
    for index, problem in enumerate(readable):
        form_rewards = rewards[index * len(FORMS) : (index + 1) * len(FORMS)]
        unknown = [name for name, value in zip(FORMS, form_rewards, strict=True) if value < 1]
        if unknown:
            failures.append(_failure(problem, unknown, ""))
    counts = {"answers": len(answered), "recognised": len(answered) - len(failures)}
    return counts, failures


def _failure(problem: Problem, forms: Sequence[str], reason: str) -> dict[str, Any]:
    return {
        "problem_id": problem.id,
        "answer": problem.answer,
        "forms": list(forms),
        "reason": reason,
    }
