"""A reward in TRL's shape, made of parts with weights, whose failures give no reward."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from types import MappingProxyType
from typing import Any, TypeAlias

from maxatk.check import LARGEST, column, returned_list, returned_number, shown
from maxatk.errors import InvalidValueError, MaxAtKError, counted
from maxatk.functions import own_lines, said_by
from maxatk.records import Outcome, Problem, Verdict
from maxatk.rewards.boxes import Boxed
from maxatk.verifier import CodeReward
from maxatk.verifier.completion_jobs import ENVIRONMENTS, judged_text
from maxatk.verifier.reasoning import read_answer
from maxatk.waiting import waited_for

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


class RewardFailure(MaxAtKError):  # noqa: N818  (a result, not only an error)
    """A reward function did not give a reward; `lines` are the user's own of the traceback."""

    def __init__(self, text: str, lines: str = "", *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.lines = lines
        self.timed_out = timed_out


Values: TypeAlias = Sequence[float | RewardFailure | None]
"""What a part gives for each completion: its value, its failure, or nothing."""


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
    boxed: Boxed | None = None  # of the kind "answer"; None for "preferred"

    @property
    def name(self) -> str:
        """The name of the column with the values of this part."""
        return self.target if self.kind == "model" else self.target.rpartition(":")[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardPart(RewardSpec):
    """The function of a part, and `check`, which raises for problems that lack what it needs.

    `refuses_unfinished` says that a completion whose reasoning never ends is worth 0.
    """

    function: RewardFunction
    check: Callable[[Sequence[Problem]], None] | None = None
    refuses_unfinished: bool = False


@dataclasses.dataclass(frozen=True)
class Rewarded:
    """The reward of one completion.

    `total` is the weighted sum, None where a part gave no value; `parts` are the values unweighted,
    by name; `error` is the failure of a part, if one failed. `unfinished` says that the reasoning
    never ends, so that tests or answers gave 0.
    """

    total: float | None
    parts: Mapping[str, float]
    error: str | None = None
    unfinished: bool = False

    @property
    def outcome(self) -> Outcome:
        """Return what became of the completion, for a score that is not by tests alone."""
        if self.error is not None:
            return Outcome.REWARD_ERROR
        if self.unfinished:
            return Outcome.UNFINISHED_THOUGHT
        return Outcome.NO_REWARD if self.total is None else Outcome.SCORED


class Reward:
    """The weighted sum of its parts, None where one gives none, as a reward in TRL's shape.

    Every kind of failure is logged once by name, and `failures` counts them all. Raises
    InvalidValueError for a wrong number of values, and where a part to stop for fails too often.
    """

    def __init__(self, parts: Sequence[RewardPart]) -> None:
        self.parts = tuple(parts)
        self.failures: Counter[str] = Counter()
        # Of the last call, for the log of a training: the share of completions it failed for, and
        # the values of the parts, unweighted by name, of every completion.
        self.failed = 0.0
        self.values: list[Mapping[str, float]] = []
        # Of every part, by its name, over all calls:
        self._completions: Counter[str] = Counter()
        self._failed_completions: Counter[str] = Counter()
        self._first_failure: dict[str, RewardFailure] = {}
        self._lowest_value = dict.fromkeys((part.name for part in parts), 0.0)
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
        return [rewarded.total for rewarded in self.rewarded(prompts, completions, columns)]

    def rewarded(
        self,
        prompts: Items,
        completions: Items,
        columns: Columns,
        *,
        values_by_part: Mapping[str, Values] = MappingProxyType({}),
    ) -> list[Rewarded]:
        """Return the reward of every completion, with the values of its parts unweighted.

        A part that has its `values_by_part` already, one a completion, is not called.
        Raises InvalidValueError for prompts and completions that are no lists of one length.
        """
        column("completions", completions)
        column("prompts", prompts, len(completions))
        values: list[Values] = []
        for part in self.parts:
            known_values = values_by_part.get(part.name)
            if known_values is None:
                known_values = _part_values(part, prompts, completions, columns)
            values.append(known_values)
        # Every part is called before any is counted: counting may stop the command.
        for part, part_values in zip(self.parts, values, strict=True):
            self._count(part, part_values)
        rewarded = [self._sum(completion_values) for completion_values in zip(*values, strict=True)]
        if any(part.refuses_unfinished for part in self.parts):
            rewarded = _with_unfinished(rewarded, prompts, completions, columns)
        self._note_last_call(rewarded)
        return rewarded

    def _note_last_call(self, rewarded: Sequence[Rewarded]) -> None:
        """Keep what the log of a training says of a call."""
        failed = [row for row in rewarded if row.error is not None]
        self.failed = len(failed) / max(1, len(rewarded))
        self.values = [row.parts for row in rewarded]

    def try_out(
        self, prompts: Items, completions: Items, columns: Columns
    ) -> dict[str, list[float | str | None]]:
        """Return what each function of the user's own gives, or fails with; raises as a call."""
        answers: dict[str, list[float | str | None]] = {}
        for part in self.parts:
            if part.kind != "function":
                continue
            values = _part_values(part, prompts, completions, columns)
            if all(isinstance(value, RewardFailure) for value in values):
                self._count(part, values)  # raises where the command would stop
            answers[part.name] = [str(v) if isinstance(v, RewardFailure) else v for v in values]
        return answers

    def _sum(self, row: Sequence[float | RewardFailure | None]) -> Rewarded:
        """Return the weighted sum of a completion's values, one of each part."""
        values: dict[str, float] = {}
        error = None
        for part, value in zip(self.parts, row, strict=True):
            if isinstance(value, RewardFailure):
                error = f"{part.name} {value}"
                value = None if part.on_error == "drop" else 0.0
            if value is not None:
                values[part.name] = value
        if len(values) < len(self.parts):
            return Rewarded(None, values, error)
        total = math.fsum(part.weight * values[part.name] for part in self.parts)
        return Rewarded(total, values, error)

    def _count(self, part: RewardPart, values: Values) -> None:
        """Count the failures of a part, and stop where they could raise a score, or are many."""
        name = part.name
        failures = [value for value in values if isinstance(value, RewardFailure)]
        numbers_given = [value for value in values if isinstance(value, float)]
        self._completions[name] += len(values)
        self._failed_completions[name] += len(failures)
        self._lowest_value[name] = min(self._lowest_value[name], *numbers_given, 0.0)
        for failure in failures:
            self._first_failure.setdefault(name, failure)
            text = f"reward {name}: {failure}"
            if not self.failures[text]:
                worth = "have no reward" if part.on_error == "drop" else "count as 0"
                _log.warning("%s; such completions %s", text, worth)
            self.failures[text] += 1
        completions = self._completions[name]
        failed = self._failed_completions[name]
        too_many = failed > MOST_FAILED * max(completions, _FEWEST)
        # A 0 would be a gift where other completions are worth less.
        zero_is_a_gift = self._lowest_value[name] < 0 or part.weight < 0
        first = self._first_failure.get(name)
        if part.on_error == "stop" and first and (too_many or zero_is_a_gift):
            raise InvalidValueError(
                f"reward {name}: failed for {failed:,} of {counted(completions, 'completion')}; "
                f"the first time it {first}{first.lines}\n"
                "Repair it, or choose in `reward`, as {reward: ..., on_error: zero}, what such "
                "completions are worth: zero, or drop, which leaves them out and can raise scores"
            )


def _with_unfinished(
    rewarded: Sequence[Rewarded], prompts: Items, completions: Items, columns: Columns
) -> list[Rewarded]:
    """Return the rewards, each with whether the reasoning of its completion never ends."""
    environments = columns.get(ENVIRONMENTS) or [None] * len(completions)
    rows = zip(rewarded, prompts, completions, environments, strict=True)
    return [
        dataclasses.replace(row, unfinished=_is_unfinished(prompt, completion, environment))
        for row, prompt, completion, environment in rows
    ]


def _is_unfinished(prompt: Any, completion: Any, environment: Any) -> bool:
    text = judged_text(completion, {"prompt": prompt, ENVIRONMENTS: environment})
    return not read_answer(text).finished


def _part_values(
    part: RewardPart, prompts: Items, completions: Items, columns: Columns
) -> list[float | RewardFailure | None]:
    """Return what a part gives for each completion, a failure where it fails for that one."""
    count = len(completions)
    try:
        return [_number(value) for value in _returned(part, prompts, completions, columns)]
    except RewardFailure as failure:
        if count == 1 or failure.timed_out:
            return [failure] * count
    # One completion may have spoilt the call: each by itself shows which.
    values: list[float | RewardFailure | None] = []
    for place in range(count):
        row = _row_alone(columns, place, count)
        try:
            (value,) = _returned(part, [prompts[place]], [completions[place]], row)
            values.append(_number(value))
        except RewardFailure as failure:
            values.append(failure)
    return values


def _row_alone(columns: Columns, place: int, count: int) -> dict[str, Any]:
    """Return the columns of a call with one of `count` completions.

    A column with one value a completion is cut to this one; any other is an argument for all.
    """
    row = {}
    for name, values in columns.items():
        is_column = isinstance(values, (list, tuple)) and len(values) == count
        row[name] = [values[place]] if is_column else values
    return row


def _number(value: Any) -> float | RewardFailure | None:
    """Return a value of a reward function as a float, also one of NumPy or torch."""
    if value is None:
        return None
    number = returned_number(value)
    if number is None or not abs(number) <= LARGEST:  # NaN is not either
        wanted = f"a finite number of at most {LARGEST:g} in size or None"
        return RewardFailure(f"returned {shown(value)} where {wanted} is wanted")
    return number


def _returned(part: RewardPart, prompts: Items, completions: Items, columns: Columns) -> list[Any]:
    """Return the values of a reward function as it returns them; raises RewardFailure."""

    def call() -> Any:
        values = part.function(prompts=list(prompts), completions=list(completions), **columns)
        listed = returned_list(values)
        return values if listed is None else listed

    try:
        # What it prints must not come between the tables of a command.
        with contextlib.redirect_stdout(sys.stderr):
            values = call() if part.timeout_s is None else _within(call, part.timeout_s)
    except (MaxAtKError, KeyboardInterrupt):  # one of ours is about the set-up, not a completion
        raise
    except BaseException as error:  # SystemExit too: the command would end with 0, without results
        raise RewardFailure(f"raised {said_by(error)}", own_lines(error)) from error
    if not isinstance(values, list) or len(values) != len(completions):
        got = counted(len(values), "value") if isinstance(values, list) else shown(values)
        raise InvalidValueError(
            f"reward {part.name}: returned {got} for {counted(len(completions), 'completion')}, "
            f"where a list of {counted(len(completions), 'number')} is wanted, with None for a "
            "completion without a reward"
        )
    return values


def _within(call: Callable[[], Any], seconds: float) -> Any:
    """Return the value of `call`; raises RewardFailure after so many seconds.

    A thread cannot be ended: the call goes on, and nobody waits for it.
    """
    outcome: futures.Future[Any] = futures.Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="maxatk-reward", daemon=True).start()
    if not waited_for(lambda slice_s: bool(futures.wait([outcome], slice_s).done), seconds):
        raise RewardFailure(f"did not return within {seconds:g} s", timed_out=True)
    return outcome.result()


def trial(problems: Sequence[Problem]) -> tuple[list[Problem], list[str]]:
    """Return three of the problems, again where they are fewer, and a completion of each to try."""
    three = [problems[place % len(problems)] for place in range(3)]
    return three, ["", "1", three[2].answer or "I do not know."]


def meta_fields(problems: Iterable[Problem]) -> list[str]:
    """Return the names of the fields of any `meta`."""
    return list(dict.fromkeys(name for problem in problems for name in problem.meta))


def columns_of(
    problems: Sequence[Problem], *, fields: Sequence[str] | None = None
) -> dict[str, list[Any]]:
    """Return `PROBLEM_COLUMNS` and `fields` of the `meta`, None where a problem lacks it.

    The fields are those of any `meta` of these problems by default. A field of a problem wins
    against one of the same name in its `meta`.
    """
    columns: dict[str, list[Any]] = {}
    for name in meta_fields(problems) if fields is None else fields:
        columns[name] = [problem.meta.get(name) for problem in problems]
    for name in _FIELDS:
        columns[name] = [getattr(problem, name) for problem in problems]
    for name in ("tests", "visible_tests"):
        columns[name] = [[test.to_json() for test in tests] for tests in columns[name]]
    columns["problem_id"] = [problem.id for problem in problems]
    return columns
