"""A reward in TRL's shape, made of parts with weights, whose failures give no reward."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import numbers
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any, TypeAlias

from maxatk.check import LARGEST
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.functions import own_lines, said_by
from maxatk.records import Problem, Verdict
from maxatk.verifier import CodeReward

_log = logging.getLogger(__name__)

RewardFunction: TypeAlias = Callable[..., Any]
"""`function(prompts=..., completions=..., **columns)` returns one number or None a completion."""

Items: TypeAlias = Sequence[Any]
Columns: TypeAlias = Mapping[str, Any]

_NO_COLUMNS = {"id", "prompt", "starter_code", "source", "meta"}
_FIELDS = [name for name in Problem.__dataclass_fields__ if name not in _NO_COLUMNS]
PROBLEM_COLUMNS = ("problem_id", *_FIELDS)
"""The columns that every problem gives beside those of its `meta`."""

MOST_FAILED = 0.05  # the share of failures before `on_error: stop` stops
_FEWEST = 20  # completions, of which that share is one


class Failure(MaxAtKError):  # noqa: N818  (a result, not only an error)
    """A reward function did not give a reward; `lines` are the user's own of the traceback."""

    def __init__(self, text: str, lines: str = "", *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.lines, self.timed_out = lines, timed_out


@dataclasses.dataclass(frozen=True)
class RewardSpec:
    """One part of a reward as a recipe names it.

    `on_error` is about completions that it fails for: "zero" counts them as 0, "drop" leaves them
    out, "stop" counts them as 0 and ends the command where there are more than `MOST_FAILED` (one
    of fewer than 20) or a reward is below 0, so that no score rises by them.
    """

    kind: str  # a name in `NAMED`, "function" or "model"
    target: str  # what a function or a model is called
    weight: float = 1.0
    timeout_s: float | None = 300.0  # of one call
    on_error: str = "stop"

    @property
    def name(self) -> str:
        """What the column of this part is called."""
        return self.target if self.kind == "model" else self.target.rpartition(":")[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part(RewardSpec):
    """The function of a part, and `check`, which raises for problems that lack what it needs."""

    function: RewardFunction
    check: Callable[[Sequence[Problem]], None] | None = None


@dataclasses.dataclass(frozen=True)
class Rewarded:
    """The reward of one completion, None without one, what parts gave, and why one gave nothing."""

    total: float | None
    parts: Mapping[str, float]
    error: str | None = None


class Reward:
    """The weighted sum of its parts, None where one gives none, as a reward in TRL's shape.

    Every kind of failure is logged once by name, and `failures` counts them all. Raises
    InvalidValueError for a wrong number of values, and where a part to stop for fails too often.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.failures: Counter[str] = Counter()
        self.failed = 0.0  # share of the completions of the last call, for the log of a training
        # Of every part: completions, those it failed for, the first failure, the lowest value.
        self._seen: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._first: dict[str, Failure] = {}
        self._lowest = dict.fromkeys((part.name for part in parts), 0.0)
        self.by_tests = [p.function for p in parts if isinstance(p.function, CodeReward)]
        self.__name__ = "+".join(part.name for part in parts)

    @property
    def verdicts(self) -> list[Verdict] | None:
        """Return the verdicts of the last call of the part by tests; None without such a part."""
        return self.by_tests[0].verdicts if self.by_tests else None

    def check(self, problems: Sequence[Problem]) -> None:
        """Raise InvalidValueError where a problem lacks what a part needs."""
        for part in self.parts:
            if part.check is not None:
                part.check(problems)

    def __call__(self, prompts: Items, completions: Items, **columns: Any) -> list[float | None]:
        """Return one reward a completion, None where a part gave none."""
        return [found.total for found in self.rewarded(prompts, completions, columns)]

    def rewarded(self, prompts: Items, completions: Items, columns: Columns) -> list[Rewarded]:
        """Return the reward of every completion, with the values of its parts unweighted."""
        values = [_values(part, prompts, completions, columns) for part in self.parts]
        for part, found in zip(self.parts, values, strict=True):
            self._count(part, found)
        rewarded = [self._sum(row) for row in zip(*values, strict=True)]
        self.failed = sum(r.error is not None for r in rewarded) / max(1, len(rewarded))
        return rewarded

    def try_out(
        self, prompts: Items, completions: Items, columns: Columns
    ) -> dict[str, list[float | str | None]]:
        """Return what each function of the user's own gives, or fails with; raises as a call."""
        found: dict[str, list[float | str | None]] = {}
        for part in (each for each in self.parts if each.kind == "function"):
            values = _values(part, prompts, completions, columns)
            if all(isinstance(value, Failure) for value in values):
                self._count(part, values)
            found[part.name] = [str(v) if isinstance(v, Failure) else v for v in values]
        return found

    def _sum(self, row: Sequence[float | Failure | None]) -> Rewarded:
        known: dict[str, float] = {}
        error = None
        for part, value in zip(self.parts, row, strict=True):
            if isinstance(value, Failure):
                error = f"{part.name} {value}"
                value = None if part.on_error == "drop" else 0.0
            if value is not None:
                known[part.name] = value
        if len(known) < len(self.parts):
            return Rewarded(None, known, error)
        return Rewarded(math.fsum(p.weight * known[p.name] for p in self.parts), known, error)

    def _count(self, part: Part, values: Sequence[float | Failure | None]) -> None:
        """Count the failures of a part, and stop where they could raise a score, or are many."""
        name, failures = part.name, [value for value in values if isinstance(value, Failure)]
        self._seen[name] += len(values)
        self._failed[name] += len(failures)
        known = [value for value in values if isinstance(value, float)]
        self._lowest[name] = min(self._lowest[name], *known, 0.0)
        for failure in failures:
            self._first.setdefault(name, failure)
            text = f"reward {name}: {failure}"
            if not self.failures[text]:
                worth = "have no reward" if part.on_error == "drop" else "count as 0"
                _log.warning("%s; such completions %s", text, worth)
            self.failures[text] += 1
        failed, seen = self._failed[name], self._seen[name]
        many = failed > MOST_FAILED * max(seen, _FEWEST)
        # A 0 would be a gift where other completions are worth less.
        first, gift = self._first.get(name), self._lowest[name] < 0 or part.weight < 0
        if part.on_error == "stop" and first and (many or gift):
            raise InvalidValueError(
                f"reward {name}: failed for {failed:,} of {seen:,} completions; the first time it "
                f"{first}{first.lines}\n"
                "Repair it, or choose in `reward`, as {reward: ..., on_error: zero}, what such "
                "completions are worth: zero, or drop, which leaves them out and can raise scores"
            )


def _values(
    part: Part, prompts: Items, completions: Items, columns: Columns
) -> list[float | Failure | None]:
    try:
        return list(map(_number, _called(part, prompts, completions, columns)))
    except Failure as failure:
        if len(completions) == 1 or failure.timed_out:
            return [failure] * len(completions)
    # One completion may have spoilt the call: each by itself shows which.
    found: list[float | Failure | None] = []
    count = len(completions)
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        row = {
            name: [v[i]] if isinstance(v, (list, tuple)) and len(v) == count else v
            for name, v in columns.items()
        }
        found += _values(part, [prompt], [completion], row)
    return found


def _number(value: Any) -> float | Failure | None:
    if value is None:
        return None
    with contextlib.suppress(Exception):  # an integer above all floats, for one
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, numbers.Real) and abs(found := float(value)) <= LARGEST:
            return found
    return Failure(f"returned {_shown(value)} where a finite number or None is wanted")


def _called(part: Part, prompts: Items, completions: Items, columns: Columns) -> list[Any]:
    def call() -> Any:
        found = part.function(prompts=list(prompts), completions=list(completions), **columns)
        found = found.tolist() if hasattr(found, "tolist") else found
        return list(found) if isinstance(found, (list, tuple)) else found

    try:
        # What it prints must not come between the tables of a command.
        with contextlib.redirect_stdout(sys.stderr):
            found = call() if part.timeout_s is None else _within(call, part.timeout_s)
    except (MaxAtKError, KeyboardInterrupt):  # one of ours is about the set-up, not a completion
        raise
    except BaseException as error:  # SystemExit too: the command would end with 0, without results
        raise Failure(f"raised {said_by(error)}", own_lines(error)) from error
    if not isinstance(found, list) or len(found) != len(completions):
        got = f"{len(found)} values" if isinstance(found, list) else _shown(found)
        raise InvalidValueError(
            f"reward {part.name}: returned {got} for {len(completions)} completions, where a list "
            f"of {len(completions)} numbers is wanted, with None for a completion without a reward"
        )
    return found


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except BaseException:  # an integer of 5,000 digits, for one
        return f"a value of type {type(value).__name__}"


def _within(call: Callable[[], Any], seconds: float) -> Any:
    """Return what `call` returns; raise Failure after so many seconds, when it goes on unheard."""
    outcome: futures.Future[Any] = futures.Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="maxatk-reward", daemon=True).start()
    if not futures.wait([outcome], min(seconds, threading.TIMEOUT_MAX)).done:
        raise Failure(f"did not return within {seconds:g} s", timed_out=True)
    return outcome.result()


def columns_of(problems: Sequence[Problem]) -> dict[str, list[Any]]:
    """Return `PROBLEM_COLUMNS` and the fields of any `meta`, None where a problem lacks it."""
    names = dict.fromkeys(name for problem in problems for name in problem.meta)
    own = {name: [getattr(p, name) for p in problems] for name in _FIELDS}
    for name in ("tests", "visible_tests"):
        own[name] = [[test.to_json() for test in tests] for tests in own[name]]
    own["problem_id"] = [problem.id for problem in problems]
    return {**{name: [p.meta.get(name) for p in problems] for name in names}, **own}
