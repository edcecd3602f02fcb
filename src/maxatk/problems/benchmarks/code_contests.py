"""CodeContests (Li et al. 2022), also in the JSON files of CURE (Wang et al. 2025)."""

from __future__ import annotations

import dataclasses

from maxatk.check import at_least
from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem
from maxatk.verifier.rules import rule

_CODES = {"python": 3, "cpp": 2}  # of languages in the solutions column


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """Which rows and tests are used.

    `max_difficulty` keeps rows up to that code of the `difficulty` column, 0 where it is unknown
    (None: all). `generated_tests` counts the tests that mutation made among the tests. `compare`
    names a comparison rule (None: the verifier's own).
    """

    max_difficulty: int | None = None
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
        return _too_difficult(row, f"cure/{row['task_id']}", options) or convert_cure(row, options)
    name = columns.identity(row["name"], "name")
    if row.get("input_file") or row.get("output_file"):
        return base.LeftOut(name, "reads or writes a file instead of standard input and output")
    too_difficult = _too_difficult(row, name, options)
    if too_difficult:
        return too_difficult
    generated = ("generated_tests",) if options.generated_tests else ()
    tests = base.stdin_tests(
        (stdin, stdout)
        for column in ("public_tests", "private_tests", *generated)
        for stdin, stdout in columns.pairs(row[column], "input", "output")
    )
    if not tests:
        return base.LeftOut(name, "has no tests")
    limit = row.get("time_limit") or {"seconds": 0}
    problem = Problem(
        f"code_contests/{name}",
        base.render(
            "stdin", row["description"], style=options.prompt_style, language=options.language
        ),
        tests,
        time_limit_s=limit["seconds"] + limit.get("nanos", 0) / 1e9 or None,
        memory_limit_mb=(row.get("memory_limit_bytes") or 0) >> 20 or None,
        compare=options.compare,
        source="code_contests",
        language=options.asked_for,
    )
    written = columns.pairs(row["solutions"], "language", "solution")
    code = _CODES.get(options.language)
    return base.solved(problem, [text for language, text in written if language == code])


def _too_difficult(row: base.Row, row_id: str, options: Options) -> base.LeftOut | None:
    """Return why a row is left out for its difficulty, or None where it is not."""
    most = options.max_difficulty
    if most is None or columns.require_type(row, "difficulty", int) <= most:
        return None
    return base.LeftOut(row_id, f"its difficulty is above {most}")


def convert_cure(row: base.Row, options: base.RowOptions) -> base.Converted:
    """Return the problem of a row of CURE, with the tests of `test_input` and `test_output`."""
    number = columns.identity(row["task_id"], "task_id")
    data_set = columns.identity(row.get("dataset") or "CodeContests", "dataset")
    row_id = f"cure/{data_set}/{number}"
    if row.get("exe_method", "stdin") != "stdin":
        return base.LeftOut(row_id, f"its tests are of the kind {row['exe_method']!r}, not stdin")
    tests = base.stdin_tests(columns.pairs(row, "test_input", "test_output"))
    if not tests:
        return base.LeftOut(row_id, "has no tests")
    prompt = base.render(
        "stdin", row["question"], style=options.prompt_style, language=options.language
    )
    limit = row.get("test_time_limit")
    problem = Problem(
        row_id, prompt, tests, time_limit_s=limit, source="cure", language=options.asked_for
    )
    in_python = options.language == "python"
    return base.solved(problem, (row.get("solutions") or []) if in_python else [])


BENCHMARK = base.Benchmark(
    hub="deepmind/code_contests",
    revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
    splits=("train", "valid", "test"),
    licence="CC BY 4.0",
    size="7.6 GB",
    convert=convert,
    options=Options,
    languages=base.ANY_LANGUAGE,
    unused=("incorrect_solutions", "untranslated_description"),
)
CURE = base.Benchmark(
    hub="Gen-Verse/CodeContests_train",
    splits=("train",),
    default_split="train",
    licence="MIT",
    size="74 MB",
    convert=convert_cure,
    languages=base.ANY_LANGUAGE,
    data_files=lambda _split, _options: ["train/CodeContests_train.json"],
)
