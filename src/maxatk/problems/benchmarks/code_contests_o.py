"""CodeContests-O (Cai et al. 2026): CodeContests with tests refined by what solutions do.

Its generators are not run: `corner_cases` are the tests that they made. Limits and solutions are
those of CodeContests and are not in its rows.
"""

from __future__ import annotations

from maxatk.problems.benchmarks import base, columns
from maxatk.problems.benchmarks.code_contests_plus import Options
from maxatk.records import Problem


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row, verified by its checker where that can be run."""
    options = options or Options()
    row_id = f"code_contests_o/{columns.identity(row['name'], 'name')}"
    cases = columns.require_type(row, "corner_cases", list)
    tests = base.stdin_tests((case["input"]["stdin"], case["output"]["stdout"]) for case in cases)
    if not tests:
        return base.LeftOut(row_id, "has no tests")
    checker = base.usable_checker(row["checker"], options.foreign_checkers)
    if isinstance(checker, base.Foreign):
        return base.LeftOut(row_id, checker.reason)
    problem = Problem(
        row_id,
        base.render(
            "stdin", row["description"], style=options.prompt_style, language=options.language
        ),
        tests,
        source="code_contests_o",
        language=options.asked_for,
        **base.checker_fields(checker),
    )
    return base.SolvedProblem(problem, None)


BENCHMARK = base.Benchmark(
    hub="caijanfeng/CodeContests-O",
    revision="1a765191567b429f633bbd1c6e67b5890dfaf267",
    splits=("train", "valid", "test"),
    licence="Apache 2.0",
    size="11,683 rows, 325 GB",
    convert=convert,
    options=Options,
    languages=base.ANY_LANGUAGE,
    unused=("results", "commands", "generator", "input_constraints_summary"),
)
