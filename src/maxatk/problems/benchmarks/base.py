"""What a benchmark is, and what its rows become: solved problems, or named reasons why not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from maxatk.problems.benchmarks.prompts import Style
from maxatk.records import Problem, TestCase

Row: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class SolvedProblem:
    """A problem and the source of a program known to solve it, or None where the row has none."""

    problem: Problem
    solution: str | None


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A row that makes no problem, and why."""

    row_id: str
    reason: str


@dataclasses.dataclass(frozen=True)
class RowOptions:
    """Settings every benchmark has; those of one benchmark are a subclass beside its `convert`.

    `prompt_style` "chat" asks a model that follows instructions, "plain" gives a base model the
    text it can go on from.
    """

    prompt_style: Style = "chat"


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """One row of `BENCHMARKS`: where a benchmark comes from and how its rows become problems.

    `hub` and `config` name the data set on the hub, `revision` the commit that is read (None: the
    newest one). `licence` is that of the data set's card and `size` that of its files, with the
    number of rows. `convert(row, options)` makes the problem of a row and raises KeyError,
    TypeError or ValueError for a row of another schema. `data_files(split, options)` names the
    files inside the repository for data sets that come without a loader; `unused` names columns
    that are not read from parquet files; `split_of(row)` tells the split where one file holds all.
    """

    hub: str
    config: str | None
    revision: str | None
    splits: tuple[str, ...]
    licence: str
    size: str
    convert: Callable[[Row, Any], SolvedProblem | LeftOut]
    options: type[RowOptions] = RowOptions
    default_split: str = "test"
    data_files: Callable[[str, Any], list[str]] | None = None
    unused: tuple[str, ...] = ()
    split_of: Callable[[Row], str] | None = None
    note: str = ""


Converted: TypeAlias = SolvedProblem | LeftOut
Tests: TypeAlias = tuple[TestCase, ...]
DuplicateTests: TypeAlias = Literal["drop", "keep"]


def stdin_tests(pairs: Iterable[tuple[str, str]]) -> Tests:
    """Return one stdin/stdout test for each pair of input and expected output."""
    return tuple(TestCase(input=given, output=expected) for given, expected in pairs)


def require_type(row: Row, column: str, kind: type) -> Any:
    """Return `row[column]`; raises TypeError naming the column when it is of another type."""
    value = row[column]
    if not isinstance(value, kind):
        raise TypeError(
            f"column {column!r} must be {kind.__name__}, got {type(value).__name__}: {value!r:.60}"
        )
    return value


def without_duplicate_tests(problem: Problem) -> tuple[Problem, int]:
    """Return the problem with each of its tests once, in the order given, and how many went.

    A repeated test tells nothing new about a program, costs a run, and gives its outcome double
    weight in a reward that is the fraction of tests passed. Whether all tests pass stays the same.
    """
    once = tuple(dict.fromkeys(problem.tests))
    dropped = len(problem.tests) - len(once)
    return (dataclasses.replace(problem, tests=once) if dropped else problem), dropped
