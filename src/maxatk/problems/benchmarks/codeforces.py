"""Codeforces (Penedo et al. 2025, open-r1): contest problems, many with a checker of their own."""

from __future__ import annotations

from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row, verified by its generated checker where it has one."""
    options = options or base.RowOptions()
    row_id = f"codeforces/{columns.identity(row['id'], 'id')}"
    if row["input_mode"] != "stdio":
        return base.LeftOut(row_id, f"its input mode is {row['input_mode']!r}, not stdio")
    if row["interaction_format"]:
        return base.LeftOut(row_id, "is interactive")
    if not row["executable"]:
        return base.LeftOut(row_id, "is not executable")
    if not columns.require_type(row, "official_tests", list):
        return base.LeftOut(row_id, "has no official tests")
    checker = base.usable_checker(row["generated_checker"], "leave_out")
    if isinstance(checker, base.Foreign):
        return base.LeftOut(row_id, checker.reason)
    problem = Problem(
        row_id,
        base.render(
            "stdin", _statement(row), style=options.prompt_style, language=options.language
        ),
        base.stdin_tests((test["input"], test["output"]) for test in row["official_tests"]),
        time_limit_s=row["time_limit"],
        memory_limit_mb=int(row["memory_limit"]) if row["memory_limit"] else None,
        source="codeforces",
        language=options.asked_for,
        **base.checker_fields(checker),
    )
    return base.SolvedProblem(problem, None)


def _statement(row: base.Row) -> str:
    """Return the statement as the contest's page shows it: title, text, formats and examples."""
    title = columns.text_or_nothing(row, "title")
    parts = [f"# {title}", columns.require_type(row, "description", str)]
    for heading, column in {"Input": "input_format", "Output": "output_format"}.items():
        text = columns.text_or_nothing(row, column)
        if text:
            parts.append(f"## {heading}\n\n{text}")
    for example in row["examples"] or ():
        stdin = example["input"].rstrip()
        stdout = example["output"].rstrip()
        parts.append(f"## Example\n\nInput:\n{stdin}\n\nOutput:\n{stdout}")
    note = columns.text_or_nothing(row, "note")
    if note:
        parts.append(f"## Note\n\n{note}")
    return "\n\n".join(parts)


BENCHMARK = base.Benchmark(
    hub="open-r1/codeforces",
    config="verifiable",
    revision="fbe3f6e903ee854eec2e69e9d96d0306cde59baf",
    splits=("train", "test"),
    licence="CC BY 4.0 (its text says ODC-By)",
    size="train 5 GB in the default configuration",
    convert=convert,
    languages=base.ANY_LANGUAGE,
)
