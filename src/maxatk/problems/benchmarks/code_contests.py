"""CodeContests (Li et al. 2022), also in the JSON files of CURE (Wang et al. 2025)."""

from __future__ import annotations

import dataclasses
from typing import Literal

from maxatk.check import at_least
from maxatk.problems.benchmarks import base
from maxatk.records import Problem
from maxatk.verifier.rules import rule

_PYTHON_3 = 3  # code of the language in the solutions column
_UNKNOWN = 0  # code of the difficulty
_FILES = {"train": "train/CodeContests_train.json"}  # of CURE


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """Which rows and tests are used.

    `max_difficulty` keeps rows up to that code of the `difficulty` column (None: all);
    `unknown_difficulty` says what then happens to rows of code 0. `generated_tests` counts the
    tests that mutation made among the tests. `compare` names a comparison rule (None: the
    verifier's own).
    """

    max_difficulty: int | None = None
    unknown_difficulty: Literal["keep", "leave_out"] = "keep"
    generated_tests: bool = True
    compare: str | None = None

    def __post_init__(self) -> None:
        at_least("max_difficulty", self.max_difficulty, 0)
        if self.compare is not None:
            rule(self.compare)


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row; CURE's form of the rows is read too."""
    options = options or Options()
    if "question" in row and "test_input" in row:
        return _filtered(row, options) or convert_cure(row, options)
    name = row["name"]
    if row.get("input_file") or row.get("output_file"):
        reason = "reads or writes a file instead of standard input and output"
        return base.LeftOut(name, reason)
    if left_out := _filtered(row, options):
        return left_out
    columns = ["public_tests", "private_tests"]
    if options.generated_tests:
        columns.append("generated_tests")
    tests = base.stdin_tests(
        (given, expected)
        for column in columns
        for given, expected in zip(row[column]["input"], row[column]["output"], strict=True)
    )
    if not tests:
        return base.LeftOut(name, "has no tests")
    limit = row.get("time_limit") or {"seconds": 0}
    problem = Problem(
        f"code_contests/{name}",
        base.render("stdin", row["description"], style=options.prompt_style),
        tests,
        time_limit_s=limit["seconds"] + limit.get("nanos", 0) / 1e9 or None,
        memory_limit_mb=(row.get("memory_limit_bytes") or 0) >> 20 or None,
        compare=options.compare,
        source="code_contests",
    )
    written = row["solutions"]
    pairs = zip(written["language"], written["solution"], strict=True)
    solution = next((text for language, text in pairs if language == _PYTHON_3), None)
    return base.SolvedProblem(problem, solution)


def _filtered(row: base.Row, options: Options) -> base.LeftOut | None:
    if options.max_difficulty is None:
        return None
    row_id = str(row.get("name") or f"cure/{row.get('task_id')}")
    difficulty = row["difficulty"]
    if isinstance(difficulty, bool) or not isinstance(difficulty, int):
        raise TypeError(f"column 'difficulty' must be a number, got {difficulty!r}")
    if difficulty == _UNKNOWN and options.unknown_difficulty == "leave_out":
        return base.LeftOut(row_id, "its difficulty is unknown")
    if difficulty > options.max_difficulty:
        return base.LeftOut(row_id, f"its difficulty is above {options.max_difficulty}")
    return None


def convert_cure(row: base.Row, options: base.RowOptions) -> base.Converted:
    """Return the problem of a row of CURE, with the tests of `test_input` and `test_output`."""
    row_id = f"cure/{row.get('dataset') or 'CodeContests'}/{row['task_id']}"
    if row.get("exe_method", "stdin") != "stdin":
        return base.LeftOut(row_id, f"its tests are of the kind {row['exe_method']!r}, not stdin")
    given, expected = (base.require_type(row, n, list) for n in ("test_input", "test_output"))
    tests = base.stdin_tests(zip(given, expected, strict=True))
    if not tests:
        return base.LeftOut(row_id, "has no tests")
    prompt = base.render("stdin", row["question"], style=options.prompt_style)
    limit = row.get("test_time_limit")
    problem = Problem(row_id, prompt, tests, time_limit_s=limit, source="cure")
    return base.SolvedProblem(problem, (row.get("solutions") or [None])[0])


BENCHMARK = base.Benchmark(
    hub="deepmind/code_contests",
    revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
    splits=("train", "valid", "test"),
    licence="CC BY 4.0",
    size="7.6 GB",
    convert=convert,
    options=Options,
    unused=("incorrect_solutions", "untranslated_description"),
)
CURE = base.Benchmark(
    hub="Gen-Verse/CodeContests_train",
    splits=tuple(_FILES),
    default_split="train",
    licence="MIT",
    size="74 MB",
    convert=convert_cure,
    data_files=lambda split, _options: [_FILES[split]],
)
