"""Codeforces (Penedo et al. 2025, open-r1): contest problems, many with a checker of their own."""

from __future__ import annotations

import dataclasses

from maxatk.problems.benchmarks.base import (
    Benchmark,
    LeftOut,
    Row,
    RowOptions,
    SolvedProblem,
    render,
    require_type,
    stdin_tests,
)
from maxatk.records import Problem

_HEADED = (("input_format", "Input"), ("output_format", "Output"), ("note", "Note"))


@dataclasses.dataclass(frozen=True)
class Options(RowOptions):
    """`complete_tests_only` leaves out rows whose official tests were cut by the web site."""

    complete_tests_only: bool = False


def convert(row: Row, options: Options | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row, verified by its generated checker where it has one."""
    options = options or Options()
    row_id = f"codeforces/{row['id']}"
    reason = _unusable(row, options)
    if reason:
        return LeftOut(row_id, reason)
    tests = stdin_tests((test["input"], test["output"]) for test in row["official_tests"])
    checker = row["generated_checker"] or None
    problem = Problem(
        id=row_id,
        prompt=render("stdin", _statement(row), style=options.prompt_style),
        tests=tests,
        time_limit_s=row["time_limit"],
        memory_limit_mb=int(row["memory_limit"]) if row["memory_limit"] else None,
        compare="checker" if checker else None,
        checker=checker,
        source="codeforces",
    )
    return SolvedProblem(problem=problem, solution=None)


def _unusable(row: Row, options: Options) -> str | None:
    if row["input_mode"] != "stdio":
        return f"its input mode is {row['input_mode']!r}, not stdio"
    if row["interaction_format"]:
        return "is interactive"
    if not row["executable"]:
        return "is not executable"
    if not require_type(row, "official_tests", list):
        return "has no official tests"
    if options.complete_tests_only and not row["official_tests_complete"]:
        return "its official tests are incomplete"
    return None


def _statement(row: Row) -> str:
    parts = [f"# {row['title']}", row["description"]]
    parts += [f"## {head}\n\n{row[column]}" for column, head in _HEADED[:2] if row[column]]
    parts += [
        f"## Example\n\nInput:\n{example['input'].rstrip()}\n\n"
        f"Output:\n{example['output'].rstrip()}"
        for example in row["examples"] or ()
    ]
    parts += [f"## {head}\n\n{row[column]}" for column, head in _HEADED[2:] if row[column]]
    return "\n\n".join(parts)


BENCHMARK = Benchmark(
    hub="open-r1/codeforces",
    config="verifiable",
    revision="fbe3f6e903ee854eec2e69e9d96d0306cde59baf",
    splits=("train", "test"),
    licence="CC BY 4.0 (its text says ODC-By)",
    size="train 5 GB in the default configuration",
    convert=convert,
    options=Options,
)
