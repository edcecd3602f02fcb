"""Whether an answer is the expected one, as mathematics (`math-verify`)."""

from __future__ import annotations

import functools
import importlib.util
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from maxatk.check import column, one_of, positive, require, whole
from maxatk.conversations import completion_text
from maxatk.cores import usable_cores
from maxatk.errors import (
    DataError,
    InvalidValueError,
    MissingDependencyError,
)
from maxatk.records import Problem
from maxatk.rewards.boxes import Boxed, last_box
from maxatk.rewards.comparers import Comparers
from maxatk.rewards.notation import (
    are_different_numbers,
    bare_prose,
    content_of,
    formula,
    gold_formula,
    in_answer_tag,
    is_bound,
    number_or_formula,
    prose,
)
from maxatk.rewards.reward import RewardFailure
from maxatk.verifier.completion_jobs import one_prompt_each
from maxatk.verifier.extract import UnfinishedThought, check_unfinished_thought
from maxatk.verifier.reasoning import opening_of, read_answer

Form: TypeAlias = Literal["box", "tag", "prose"]
"""Where an answer stands: in a box, in a tag `<answer>`, or anywhere in the text."""

BOXED = ("required", "preferred")

_COMMA = re.compile(r" ?, ?")
_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname)\s*\{([^{}]*)\}")


class AnswerReward:
    """A reward function in TRL's shape: 1.0 where a completion's answer equals `answer`, else 0.

    The last box of a completion is its answer; without one it is what the last tag `<answer>`
    holds; without either it is the last formula or number of the text, unless `boxed` is
    "required". Up to `workers` processes compare, by default one for each usable core. A completion
    is wrong if it cannot be compared within `timeout_s` CPU seconds or makes math-verify fail, or a
    failure would be better than a wrong answer; and if its reasoning never ends, unless
    `unfinished_thought` is "read". Raises InvalidValueError for other values,
    MissingDependencyError without math-verify.
    """

    def __init__(
        self,
        *,
        boxed: Boxed = "preferred",
        unfinished_thought: UnfinishedThought = "wrong",
        workers: int | None = None,
        timeout_s: float = 3.0,
    ) -> None:
        one_of("boxed", boxed, BOXED)
        check_unfinished_thought(unfinished_thought)
        if workers is not None:
            whole("workers", workers, 1)
        positive("timeout_s", timeout_s)
        if importlib.util.find_spec("math_verify") is None:
            raise MissingDependencyError(
                "the reward 'answer' needs the package 'math-verify': pip install 'maxatk[math]'"
            )
        self.unfinished_thought = unfinished_thought
        self._boxed = boxed
        self._timeout_s = timeout_s
        self._comparers = Comparers(workers or usable_cores(), timeout_s=timeout_s)
        self._failures: dict[str, str] = {}  # of gold answers, "" for those that are understood
        self.__name__ = "answer"

    def check(self, problems: Sequence[Problem]) -> None:
        """Raise InvalidValueError for a problem without `answer`, DataError for no mathematics."""
        for problem in problems:
            if problem.answer is None:
                raise InvalidValueError(
                    f"Problem {problem.id!r}: has no `answer`, which the reward 'answer' needs"
                )
        for problem, reason in zip(problems, self.reasons_against(problems), strict=True):
            if reason:
                raise DataError(f"Problem {problem.id!r}: answer: {reason}")

    def reasons_against(self, problems: Sequence[Problem]) -> list[str]:
        """Return for each problem why its answer is not mathematics, "" where it is."""
        answers = [str(problem.answer) for problem in problems]
        self._understand(answers)
        return [self._failures[answer] for answer in answers]

    def __call__(
        self,
        prompts: Sequence[Any] | None = None,
        completions: Sequence[Any] = (),
        answer: Sequence[str | float] | None = None,
        **_unused: Any,
    ) -> list[float]:
        """Return 1.0 or 0.0 for each completion; `answer` is a column of texts or numbers.

        Raises RewardFailure for an expected answer that is not mathematics, InvalidValueError for
        one that is neither text nor a number, and for columns that are no lists of one length.
        """
        column("completions", completions)
        if answer is None:
            raise InvalidValueError("answer: the data need a column `answer`")
        column("answer", answer, len(completions))
        prompts = one_prompt_each(prompts, len(completions))
        gold_answers = [_gold_text(gold, field="answer") for gold in answer]
        self._understand(gold_answers)
        pairs = [
            self._pair(opening_of(prompt) + completion_text(completion), gold)
            for prompt, completion, gold in zip(prompts, completions, gold_answers, strict=True)
        ]
        for gold in gold_answers:
            if self._failures[gold]:
                raise RewardFailure(f"answer: {self._failures[gold]}")
        distinct = list(dict.fromkeys(pair for pair in pairs if isinstance(pair, _Pair)))
        replies = self._comparers.ask([pair._asdict() for pair in distinct])
        equal = {
            pair: reply.get("equal", False) for pair, reply in zip(distinct, replies, strict=True)
        }
        return [float(equal[pair] if isinstance(pair, _Pair) else pair) for pair in pairs]

    def _pair(self, text: str, gold: str) -> _Pair | bool:
        """Return what is to be compared, or whether the answer is right where that is clear."""
        answer = read_answer(text)
        if not answer.finished and self.unfinished_thought == "wrong":
            return False
        box = last_box(answer.text)
        if box.cut_off or (box.content is None and self._boxed == "required"):
            return False
        gold, is_number = gold_formula(gold)
        # Where a number is expected a unit is left out; where `2x` is, every letter counts.
        read = number_or_formula if is_number else formula
        if box.content is not None:
            if is_bound(box.content, gold):
                return False
            if box.alternatives and is_number and are_different_numbers(map(read, box.joined)):
                return False
            content = read(content_of(box.content))
            joined = ", ".join(map(formula, box.joined)) if len(box.joined) > 1 else None
            return _same_text(content, gold) or _Pair(gold, content, "box", joined=joined)
        tagged = in_answer_tag(answer.text)
        form: Form = "prose" if tagged is None else "tag"
        words = prose(answer.text, read) if tagged is None else read(content_of(tagged))
        return _same_text(words, gold) or _Pair(gold, words, form, bare=bare_prose(words))

    def _understand(self, answers: Sequence[str]) -> None:
        """Find out what is wrong with expected answers that were not asked about before."""
        asked = [gold for gold in dict.fromkeys(answers) if gold not in self._failures]
        replies = self._comparers.ask([{"gold": gold_formula(gold)[0]} for gold in asked])
        for gold, reply in zip(asked, replies, strict=True):
            if reply.get("understood"):
                self._failures[gold] = ""
            elif "error" in reply or "died" in reply:
                self._failures[gold] = f"math-verify fails for {gold!r:.60}: {reply}"
            else:
                self._failures[gold] = (
                    f"{gold!r:.60} is not mathematics that math-verify understands within "
                    f"{self._timeout_s:g} s"
                )

    def close(self) -> None:
        """End the processes of the comparisons; the next one starts them again."""
        self._comparers.close()

    def __del__(self) -> None:
        if hasattr(self, "_comparers"):  # where `__init__` has come so far
            self.close()


class _Pair(NamedTuple):
    """The arguments of `math_worker._answer`."""

    gold: str
    completion: str
    form: Form
    joined: str | None = None
    bare: str | None = None


def _gold_text(gold: object, *, field: str) -> str:
    """Return an expected answer as text; raises InvalidValueError for what is no text or number."""
    is_number = isinstance(gold, numbers.Real) and not isinstance(gold, bool)
    require(isinstance(gold, str) or is_number, field, "text or a number", gold)
    return str(gold)


def _same_text(text: str, gold: str) -> bool:
    """Say whether an answer is the expected text, whatever LaTeX says of its font and spaces."""
    return _plain(text) == _plain(gold)


def _plain(text: str) -> str:
    text = " ".join(_TEXT.sub(r"\1", text.replace("$", " ")).split())
    return _COMMA.sub(",", text)


def compute_answer_score(
    data_source: str,  # noqa: ARG001  (part of the shape)
    solution_str: str,
    ground_truth: str | float,
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
    *,
    boxed: Boxed = "preferred",
    unfinished_thought: UnfinishedThought = "wrong",
) -> dict[str, float]:
    """Return `score`, 1.0 where the answer of a completion, `solution_str`, is the ground truth.

    That is verl's shape. Where the ground truth is not mathematics, `score` is NaN and `unscored`
    is 1. Raises InvalidValueError for a ground truth that is neither text nor a number.
    """
    require(isinstance(solution_str, str), "solution_str", "a string", solution_str)
    gold = _gold_text(ground_truth, field="ground_truth")
    reward = _shared(os.getpid(), boxed, unfinished_thought)
    try:
        return {"score": reward([], [solution_str], [gold])[0], "unscored": 0.0}
    except RewardFailure:
        return {"score": math.nan, "unscored": 1.0}


@functools.cache
def _shared(_pid: int, boxed: Boxed, unfinished_thought: UnfinishedThought) -> AnswerReward:
    """Return the one reward of this process with these settings."""
    return AnswerReward(boxed=boxed, unfinished_thought=unfinished_thought)
