"""CodeContests+ (Wang et al. 2025): problems of CodeContests with better tests and checkers.

Its generators and validators are not run: a configuration such as `1x` has the tests they made.
"""

from __future__ import annotations

import dataclasses

from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem

# Names of languages in the submissions; of one without a row no solutions are kept.
_NAMES = {"python": ("py3", "python3", "pypy3"), "cpp": ("cpp", "c++", "cxx"), "c": ("c",)}


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`foreign_checkers`: a row whose checker is not in Python is left out, or it is not used.

    With "use" checkers in C++ are taken: to verify by them the verifier needs its `testlib`.
    """

    foreign_checkers: base.ForeignCheckers = "leave_out"


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row, verified by its checker where that can be run."""
    options = options or Options()
    source = columns.identity(row["source"], "source")
    row_id = f"code_contests_plus/{source}/{columns.identity(row['id'], 'id')}"
    tests = base.stdin_tests(
        (test["input"], test["output"]) for test in columns.require_type(row, "test_cases", list)
    )
    if not tests:
        return base.LeftOut(row_id, "has no tests")
    checker = base.usable_checker(row["checker"], options.foreign_checkers)
    if isinstance(checker, base.Foreign):
        return base.LeftOut(row_id, checker.reason)
    title = columns.text_or_nothing(row, "title")
    description = columns.require_type(row, "description", str)
    milliseconds = row["time_limit"]
    problem = Problem(
        row_id,
        base.render(
            "stdin",
            f"# {title}\n\n{description}",
            style=options.prompt_style,
            language=options.language,
        ),
        tests,
        time_limit_s=milliseconds / 1000 if milliseconds else None,
        memory_limit_mb=row["memory_limit"] or None,
        source="code_contests_plus",
        language=options.asked_for,
        **base.checker_fields(checker),
    )
    solutions = [
        submission["code"]
        for submission in row["correct_submissions"] or ()
        if submission["language"].lower() in _NAMES.get(options.language, ())
    ]
    return base.solved(problem, solutions)


BENCHMARK = base.Benchmark(
    hub="ByteDance-Seed/Code-Contests-Plus",
    config="1x",
    splits=("train",),
    default_split="train",
    licence="CC BY 4.0",
    size="11,690 rows",
    convert=convert,
    options=Options,
    languages=base.ANY_LANGUAGE,
    unused=("incorrect_submissions", "generator", "validator"),
)
