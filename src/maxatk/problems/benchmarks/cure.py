"""CodeContests in the JSON files of CURE (Wang et al. 2025): stdin/stdout problems."""

from __future__ import annotations

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

_FILES = {"train": "train/CodeContests_train.json"}


def convert(row: Row, options: RowOptions | None = None) -> SolvedProblem | LeftOut:
    """Return the problem of a row; its tests are those of `test_input` and `test_output`."""
    options = options or RowOptions()
    row_id = f"cure/{row.get('dataset') or 'CodeContests'}/{row['task_id']}"
    if row.get("exe_method", "stdin") != "stdin":
        return LeftOut(row_id, f"its tests are of the kind {row['exe_method']!r}, not stdin")
    given, expected = (require_type(row, name, list) for name in ("test_input", "test_output"))
    tests = stdin_tests(zip(given, expected, strict=True))
    if not tests:
        return LeftOut(row_id, "has no tests")
    problem = Problem(
        id=row_id,
        prompt=render("stdin", row["question"], style=options.prompt_style),
        tests=tests,
        time_limit_s=row.get("test_time_limit"),
        source="cure",
    )
    solutions = row.get("solutions") or [None]
    return SolvedProblem(problem=problem, solution=solutions[0])


BENCHMARK = Benchmark(
    hub="Gen-Verse/CodeContests_train",
    splits=tuple(_FILES),
    default_split="train",
    licence="MIT",
    size="74 MB",
    convert=convert,
    data_files=lambda split, _options: [_FILES[split]],
)
