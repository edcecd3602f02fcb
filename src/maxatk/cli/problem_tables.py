"""What `maxatk problems` shows: benchmarks, a problem, a preparation, a check."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxatk.cli.tables import console
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks.base import Benchmark, LeftOut, SolvedProblem
from maxatk.records import TestCase

if TYPE_CHECKING:
    from maxatk.problems.check import Checked
    from maxatk.report.tidy import TidyRow

_FEW = 20  # rows left out that are named on the terminal too
_LEFT_OUT = ".left_out.jsonl"
_LONGEST = 1000  # characters of one text of a test


def print_benchmarks(benchmarks: Mapping[str, Benchmark]) -> None:
    """Print one row a benchmark: name, source, licence, size, and what it needs."""
    from rich.table import Table as RichTable

    table = RichTable("name", "hub", "licence", "size", "splits", "options")
    for name, found in benchmarks.items():
        configuration = f" ({found.config})" if found.config else ""
        splits = [f"{s}*" if s == found.default_split else s for s in found.splits]
        options = [field.name for field in dataclasses.fields(found.options)]
        table.add_row(
            name,
            f"{found.hub}{configuration}",
            found.licence,
            found.size,
            ", ".join(splits),
            ", ".join(options),
        )
    screen = console()
    screen.print(table)
    screen.print(
        "* read if no split is named. From the hub each needs the package 'datasets' and a "
        "network; with --file a local file or folder of the same schema (JSONL, JSON, parquet).",
        markup=False,
        soft_wrap=True,
    )


def print_problem(solved: SolvedProblem, *, tests: int) -> None:
    """Print a problem: what it is, its prompt, some tests, and its reference solution."""
    from rich.syntax import Syntax

    problem, screen = solved.problem, console()
    facts = {
        "tests": len(problem.tests),
        "compare": problem.compare or "the verifier's own rule",
        "time limit": f"{problem.time_limit_s} s" if problem.time_limit_s else "the verifier's own",
        "memory limit": f"{problem.memory_limit_mb} MiB"
        if problem.memory_limit_mb
        else "the verifier's own",
        "entry point": problem.entry_point,
    }
    screen.rule(problem.id)
    shown = [f"{name}: {value}" for name, value in facts.items() if value is not None]
    screen.print("; ".join(shown), markup=False, style="dim")
    screen.rule("prompt", align="left")
    screen.print(problem.prompt, markup=False, highlight=False)
    for number, test in enumerate(problem.tests[:tests]):
        screen.rule(f"test {number}", align="left")
        screen.print(_test_text(test), markup=False, highlight=False)
    if len(problem.tests) > tests:
        screen.print(f"... and {len(problem.tests) - tests} tests more", style="dim")
    screen.rule("reference solution", align="left")
    screen.print(Syntax(solved.solution, "python") if solved.solution else "none in the data set")


def print_manifest(name: str, manifest: Mapping[str, Any], *, folder: Path) -> None:
    """Print the counts of a preparation: rows, kept, left out by reason; then its files."""
    from rich.table import Table as RichTable

    counts = manifest["counts"]
    table = RichTable("", "rows", title=name, title_justify="left")
    table.add_row("rows read", f"{counts['rows']:,}")
    for reason, count in counts["left_out"].items():
        table.add_row(f"left out: {reason}", f"{count:,}", style="dim")
    table.add_row("kept", f"{counts['kept']:,}", style="bold")
    table.add_row("  with a reference solution", f"{counts['solutions']:,}")
    table.add_row("  their tests", f"{counts['tests']:,}")
    table.add_row(
        f"  repeated tests dropped, of {counts['with_duplicates']:,} problems",
        f"{counts['duplicates']:,}",
    )
    screen = console()
    screen.print(table)
    for file, facts in manifest["files"].items():
        line = f"{folder / file}: {facts['lines']:,} lines, sha256 {facts['sha256'][:12]}"
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    if 0 < sum(counts["left_out"].values()) <= _FEW:
        (listed,) = (folder / file for file in manifest["files"] if file.endswith(_LEFT_OUT))
        for row in read_jsonl(listed, lambda row: LeftOut(row["row_id"], row["reason"])):
            line = f"  left out {row.row_id}: {row.reason}"
            screen.print(line, markup=False, highlight=False, soft_wrap=True)


def print_checked(checked: Checked) -> None:
    """Print how many reference solutions pass, and why the others do not."""
    from rich.table import Table as RichTable

    screen = console()
    failures = checked.failures
    screen.print(
        f"{checked.problems}: {checked.passed} reference solutions pass, {len(failures)} fail, "
        f"{len(checked.unsolved)} problems have none",
        markup=False,
        soft_wrap=True,
    )
    if checked.unverified:
        names = ", ".join(checked.unverified)
        screen.print(f"the verifier itself failed on {names}", markup=False, soft_wrap=True)
    if not failures:
        return
    outcomes = Counter(str(failure.outcome) for failure in failures)
    screen.print(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
    table = RichTable("problem", "passed", "outcome", "first failed test", "its standard error")
    for failure in failures:
        last_line = failure.stderr.splitlines()[-1] if failure.stderr else ""
        table.add_row(
            failure.problem_id,
            f"{failure.passed} of {failure.total}",
            str(failure.outcome),
            str(failure.test),
            last_line,
        )
    screen.print(table)


def benchmark_rows(benchmarks: Mapping[str, Benchmark]) -> list[TidyRow]:
    """Return one row a benchmark."""
    return [
        {
            "benchmark": name,
            "hub": found.hub,
            "config": found.config,
            "licence": found.licence,
            "size": found.size,
            "splits": list(found.splits),
            "default_split": found.default_split,
            "options": [field.name for field in dataclasses.fields(found.options)],
        }
        for name, found in benchmarks.items()
    ]


def manifest_rows(manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, list[TidyRow]]:
    """Return the rows of preparations: "sets" (their counts), "left_out" by reason, "files"."""
    kept = ("rows", "kept", "solutions", "tests", "with_duplicates", "duplicates")
    return {
        "sets": [
            {"set": name, **{key: found["counts"][key] for key in kept}}
            for name, found in manifests.items()
        ],
        "left_out": [
            {"set": name, "reason": reason, "rows": count}
            for name, found in manifests.items()
            for reason, count in found["counts"]["left_out"].items()
        ],
        "files": [
            {"set": name, "file": file, **facts}
            for name, found in manifests.items()
            for file, facts in found["files"].items()
        ],
    }


def checked_rows(checked: Checked) -> dict[str, list[TidyRow]]:
    """Return the rows of a check: "checked", its counts, and "failures", one a problem."""
    counts = {
        "passed": checked.passed,
        "failed": len(checked.failures),
        "unverified": len(checked.unverified),
        "without_solution": len(checked.unsolved),
    }
    return {
        "checked": [{"problems": str(checked.problems), **counts}],
        "failures": [
            {**dataclasses.asdict(failure), "outcome": str(failure.outcome)}
            for failure in checked.failures
        ],
    }


def _test_text(test: TestCase) -> str:
    fields = test.to_json()
    return "\n".join(f"{name}:\n{_shortened(text)}" for name, text in fields.items())


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... ({len(text):,} characters)"
