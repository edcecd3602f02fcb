"""Codeforces (Penedo et al. 2025, open-r1): contest problems, many with a checker of their own."""

from __future__ import annotations

from maxatk.problems.benchmarks import base
from maxatk.records import Problem


def convert(row: base.Row, options: base.RowOptions | None = None) -> base.Converted:
    """Return the problem of a row, verified by its generated checker where it has one."""
    row_id, style = f"codeforces/{row['id']}", (options or base.RowOptions()).prompt_style
    unusable = {
        f"its input mode is {row['input_mode']!r}, not stdio": row["input_mode"] != "stdio",
        "is interactive": row["interaction_format"],
        "is not executable": not row["executable"],
        "has no official tests": not base.require_type(row, "official_tests", list),
    }
    for reason, holds in unusable.items():
        if holds:
            return base.LeftOut(row_id, reason)
    checker = row["generated_checker"] or None
    problem = Problem(
        row_id,
        base.render("stdin", _statement(row), style=style),
        base.stdin_tests((test["input"], test["output"]) for test in row["official_tests"]),
        time_limit_s=row["time_limit"],
        memory_limit_mb=int(row["memory_limit"]) if row["memory_limit"] else None,
        compare="checker" if checker else None,
        checker=checker,
        source="codeforces",
    )
    return base.SolvedProblem(problem, None)


def _statement(row: base.Row) -> str:
    headed = {"Input": row["input_format"], "Output": row["output_format"]}
    examples = [
        f"## Example\n\nInput:\n{e['input'].rstrip()}\n\nOutput:\n{e['output'].rstrip()}"
        for e in row["examples"] or ()
    ]
    parts = [
        f"# {row['title']}",
        row["description"],
        *(f"## {head}\n\n{text}" for head, text in headed.items() if text),
        *examples,
        *([f"## Note\n\n{row['note']}"] if row["note"] else []),
    ]
    return "\n\n".join(parts)


BENCHMARK = base.Benchmark(
    hub="open-r1/codeforces",
    config="verifiable",
    revision="fbe3f6e903ee854eec2e69e9d96d0306cde59baf",
    splits=("train", "test"),
    licence="CC BY 4.0 (its text says ODC-By)",
    size="train 5 GB in the default configuration",
    convert=convert,
)
