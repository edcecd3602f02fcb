"""A reward in TRL's shape, made of parts with weights, whose failures give no reward."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import numbers
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.errors import MaxAtKError
from maxatk.records import Problem
from maxatk.verifier import CodeReward
from maxatk.verifier.rewards import Completion, Start

_log = logging.getLogger(__name__)

RewardFunction = Callable[..., Any]
"""`function(prompts=..., completions=..., **columns)` returns one number or None a completion."""

PROBLEM_COLUMNS = (
    "problem_id",
    "answer",
    "tests",
    "visible_tests",
    "compare",
    "entry_point",
    "checker",
    "time_limit_s",
    "memory_limit_mb",
)
"""The columns that every problem gives beside those of its `meta`."""


class Failure(MaxAtKError):  # noqa: N818  (a result, not only an error)
    """A reward function did not give a reward: it raised, took too long or returned no number."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One function of a reward, its weight in the sum and the seconds a call of it may take.

    `check` raises for problems that lack what the function needs.
    """

    name: str
    function: RewardFunction
    weight: float = 1.0
    timeout_s: float | None = None
    check: Callable[[Sequence[Problem]], None] | None = None


class Reward:
    """The weighted sum of its parts, as a reward function in TRL's shape.

    A part that fails for a completion gives None there, and so does the sum: a failure is never a
    reward of 0. Every kind of failure is logged once by name, and `failures` counts them all.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.failures: Counter[str] = Counter()
        self.__name__ = "+".join(part.name for part in parts)

    def check(self, problems: Sequence[Problem]) -> None:
        """Raise InvalidValueError where a problem lacks what a part needs."""
        for part in self.parts:
            if part.check is not None:
                part.check(problems)

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Return one reward a completion, None where a part gave none."""
        return self.total(self.by_part(prompts, completions, columns))

    @contextlib.contextmanager
    def ahead(self) -> Iterator[Start]:
        """Yield a function that starts what the parts by tests need; see `CodeReward.ahead`.

        Functions of the user and reward models are called with the whole batch alone.
        """
        with contextlib.ExitStack() as stack:
            starts = [
                stack.enter_context(part.function.ahead())
                for part in self.parts
                if isinstance(part.function, CodeReward)
            ]

            def start(completion: Completion, row: Mapping[str, Any]) -> None:
                for each in starts:
                    each(completion, row)

            yield start

    def by_part(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> dict[str, list[float | None]]:
        """Return the values of every part by its name, before they are weighted."""
        return {p.name: self._values(p, prompts, completions, columns) for p in self.parts}

    def total(self, values: Mapping[str, Sequence[float | None]]) -> list[float | None]:
        """Return the weighted sum of the values of `by_part`, None where one of them is."""
        rows = zip(*(values[part.name] for part in self.parts), strict=True)
        weights = [part.weight for part in self.parts]
        return [
            None
            if any(value is None for value in row)
            else math.fsum(w * v for w, v in zip(weights, row, strict=True) if v is not None)
            for row in rows
        ]

    def _values(
        self,
        part: Part,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        columns: Mapping[str, Any],
    ) -> list[float | None]:
        try:
            found = _called(part, prompts, completions, columns)
        except Failure as failure:
            if len(completions) == 1 or isinstance(failure, _TimeOut):
                self._note(part, failure)
                return [None] * len(completions)
            # One completion may have spoilt the call: each by itself shows which.
            rows = [_row(columns, i, len(completions)) for i in range(len(completions))]
            return [
                self._values(part, [prompt], [completion], row)[0]
                for prompt, completion, row in zip(prompts, completions, rows, strict=True)
            ]
        return [self._number(part, value) for value in found]

    def _number(self, part: Part, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
        self._note(part, Failure(f"returned {value!r:.60} where a finite number or None is wanted"))
        return None

    def _note(self, part: Part, failure: Failure) -> None:
        text = f"reward {part.name}: {failure}"
        if not self.failures[text]:
            _log.warning("%s; such completions have no reward", text)
        self.failures[text] += 1


class _TimeOut(Failure):
    pass


def _called(
    part: Part, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
) -> list[Any]:
    def call() -> Any:
        return part.function(prompts=list(prompts), completions=list(completions), **columns)

    try:
        found = call() if part.timeout_s is None else _within(call, part.timeout_s)
    except (Failure, MaxAtKError):  # an error of ours is about the set-up, not one completion
        raise
    except Exception as error:
        raise Failure(f"raised {type(error).__name__}: {error!s:.200}") from error
    listed = found.tolist() if hasattr(found, "tolist") else found
    if not isinstance(listed, (list, tuple)) or len(listed) != len(completions):
        raise Failure(
            f"returned {found!r:.60} where a list of {len(completions)} numbers is wanted"
        )
    return list(listed)


def _within(call: Callable[[], Any], seconds: float) -> Any:
    """Return what `call` returns; raise _TimeOut where it has not after so many seconds.

    A thread cannot be stopped: the call that took too long goes on, and its result is dropped.
    """
    outcome: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            outcome.append((True, call()))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=work, name="maxatk-reward", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise _TimeOut(f"did not return within {seconds:g} s")
    good, value = outcome[0]
    if not good:
        raise value
    return value


def _row(columns: Mapping[str, Any], index: int, count: int) -> dict[str, Any]:
    """Return the columns of one completion; what is no column is passed on as it is."""
    return {
        name: [value[index]] if isinstance(value, (list, tuple)) and len(value) == count else value
        for name, value in columns.items()
    }


def columns_of(problems: Sequence[Problem]) -> dict[str, list[Any]]:
    """Return the columns of problems as a reward function gets them, one value a problem.

    They are those of `PROBLEM_COLUMNS` and one for every field of any problem's `meta`, None where
    a problem lacks it; a field of that name never takes the place of one of the former.
    """
    names = dict.fromkeys(name for problem in problems for name in problem.meta)
    own: dict[str, list[Any]] = {"problem_id": [problem.id for problem in problems]}
    for name in ("tests", "visible_tests"):
        own[name] = [[test.to_json() for test in getattr(p, name)] for p in problems]
    for name in PROBLEM_COLUMNS:
        if name not in own:
            own[name] = [getattr(problem, name) for problem in problems]
    return {**{name: [p.meta.get(name) for p in problems] for name in names}, **own}
