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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

from maxatk.check import LARGEST
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.functions import own_lines, said_by
from maxatk.records import Problem, Verdict
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


MOST_FAILED = 0.05
"""The share of completions that a function may fail for before `on_error: stop` stops."""

_FEWEST = 20  # completions, of which that share is one


class Failure(MaxAtKError):  # noqa: N818  (a result, not only an error)
    """A reward function did not give a reward: it raised, took too long or returned no number.

    `lines` are those of the traceback that are the user's own.
    """

    def __init__(self, text: str, lines: str = "") -> None:
        super().__init__(text)
        self.lines = lines


@dataclasses.dataclass(frozen=True)
class Part:
    """One function of a reward, its weight in the sum and the seconds a call of it may take.

    `check` raises for problems that lack what the function needs. `on_error` says what a
    completion is worth that the function fails for, as in `RewardSpec`; `own` marks a function of
    the user's.
    """

    name: str
    function: RewardFunction
    weight: float = 1.0
    timeout_s: float | None = None
    check: Callable[[Sequence[Problem]], None] | None = None
    on_error: str = "drop"
    own: bool = False


@dataclasses.dataclass(frozen=True)
class Rewarded:
    """The reward of one completion, None without one, what parts gave, and why one gave nothing."""

    total: float | None
    parts: Mapping[str, float]
    error: str | None = None


@dataclasses.dataclass
class _Tally:
    """Completions that a part was called with, those it failed for, and if a value was below 0."""

    completions: int = 0
    failed: int = 0
    negative: bool = False
    first: Failure | None = None


class Reward:
    """The weighted sum of its parts, as a reward function in TRL's shape.

    Where a part gives None, or fails and is to be dropped, the sum is None. Every kind of failure
    is logged once by name, and `failures` counts them all; `failed` is the share of completions
    that the last call had one for.

    Its calls raise InvalidValueError where a function returns another number of values than it
    got completions, and where one whose `on_error` is "stop" fails too often.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self.failures: Counter[str] = Counter()
        self.failed = 0.0  # share of the completions of the last call
        self._tallies = {part.name: _Tally() for part in parts}
        self.__name__ = "+".join(part.name for part in parts)

    @property
    def verdicts(self) -> list[Verdict] | None:
        """Return the verdicts of the last call of the part by tests; None without such a part."""
        by_tests = (part.function for part in self.parts if isinstance(part.function, CodeReward))
        return next((function.verdicts for function in by_tests), None)

    def check(self, problems: Sequence[Problem]) -> None:
        """Raise InvalidValueError where a problem lacks what a part needs."""
        for part in self.parts:
            if part.check is not None:
                part.check(problems)

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """Return one reward a completion, None where a part gave none."""
        return [found.total for found in self.rewarded(prompts, completions, columns)]

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

    def rewarded(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[Rewarded]:
        """Return the reward of every completion, with the values of its parts unweighted."""
        values = [self._values(part, prompts, completions, columns) for part in self.parts]
        for part, found in zip(self.parts, values, strict=True):
            self._count(part, found)
        rewarded = [self._sum(row) for row in zip(*values, strict=True)]
        self.failed = sum(r.error is not None for r in rewarded) / max(1, len(rewarded))
        return rewarded

    def try_out(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> dict[str, list[float | str | None]]:
        """Return what each function of the user's own gives a few completions, or fails with.

        Raises InvalidValueError where one that is to stop fails for all of them, and as a call.
        """
        found: dict[str, list[float | str | None]] = {}
        for part in self.parts:
            if part.own:
                values = self._values(part, prompts, completions, columns)
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
        failures = [value for value in values if isinstance(value, Failure)]
        tally = self._tallies[part.name]
        tally.completions += len(values)
        tally.failed += len(failures)
        tally.negative |= any(isinstance(value, float) and value < 0 for value in values)
        tally.first = tally.first or next(iter(failures), None)
        for failure in failures:
            self._note(part, failure)
        many = tally.failed > MOST_FAILED * max(tally.completions, _FEWEST)
        # A 0 would be a gift where other completions are worth less.
        first, gift = tally.first, tally.negative or part.weight < 0
        if part.on_error == "stop" and first and (many or gift):
            count = f"{tally.failed:,} of {tally.completions:,} completions"
            raise InvalidValueError(
                f"reward {part.name}: failed for {count}; the first time it {first}{first.lines}\n"
                "Repair it, or choose in `reward`, as {reward: ..., on_error: zero}, what such "
                "completions are worth: zero, or drop, which leaves them out and can raise scores"
            )

    def _values(
        self,
        part: Part,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        columns: Mapping[str, Any],
    ) -> list[float | Failure | None]:
        try:
            found = _called(part, prompts, completions, columns)
        except Failure as failure:
            if len(completions) == 1 or isinstance(failure, _TimeOut):
                return [failure] * len(completions)
            # One completion may have spoilt the call: each by itself shows which.
            rows = [_row(columns, i, len(completions)) for i in range(len(completions))]
            return [
                self._values(part, [prompt], [completion], row)[0]
                for prompt, completion, row in zip(prompts, completions, rows, strict=True)
            ]
        return [_number(value) for value in found]

    def _note(self, part: Part, failure: Failure) -> None:
        text = f"reward {part.name}: {failure}"
        if not self.failures[text]:
            worth = "have no reward" if part.on_error == "drop" else "count as 0"
            _log.warning("%s; such completions %s", text, worth)
        self.failures[text] += 1


class _TimeOut(Failure):
    pass


def _number(value: Any) -> float | Failure | None:
    if value is None:
        return None
    with contextlib.suppress(Exception):  # an integer above all floats, for one
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, numbers.Real) and abs(found := float(value)) <= LARGEST:
            return found
    return Failure(f"returned {_shown(value)} where a finite number or None is wanted")


def _called(
    part: Part, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
) -> list[Any]:
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
    """Return what `call` returns; raise _TimeOut where it has not after so many seconds.

    A thread cannot be stopped: the call that took too long goes on, and its result is dropped.
    """
    outcome: futures.Future[Any] = futures.Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="maxatk-reward", daemon=True).start()
    if not futures.wait([outcome], seconds).done:
        raise _TimeOut(f"did not return within {seconds:g} s")
    return outcome.result()


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
    own = {name: [_column(problem, name) for problem in problems] for name in PROBLEM_COLUMNS}
    return {**{name: [p.meta.get(name) for p in problems] for name in names}, **own}


def _column(problem: Problem, name: str) -> Any:
    if name in ("tests", "visible_tests"):
        return [test.to_json() for test in getattr(problem, name)]
    return problem.id if name == "problem_id" else getattr(problem, name)
