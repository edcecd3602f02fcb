"""Tables on the terminal: those of the report, and what `maxatk problems` shows."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxatk.evaluation.groups import results_by
from maxatk.evaluation.results import MOST_CUT_OFF, cut_off
from maxatk.evaluation.sources import ResultsSource, load_results
from maxatk.jsonl import read_jsonl
from maxatk.problems.benchmarks.base import Benchmark, LeftOut, SolvedProblem
from maxatk.records import TestCase
from maxatk.report import Cell, Table, outcomes_table, overview_table
from maxatk.report.run_tables import KS, groups_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from maxatk.problems.check import Checked

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}
_FOOTNOTES = {"best": "¹", "second": "²"}
_FEW = 20  # rows left out that are named on the terminal too
_LEFT_OUT = ".left_out.jsonl"
_LONGEST = 1000  # characters of one text of a test


def print_overview(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = (), by: str | None = None
) -> None:
    """Print max@k and pass@k of every run, with 95% intervals, best bold, second underlined.

    `ks` are those of the columns, else those of the report; `by` adds a table for a field of the
    problems' `meta`, one row a value.
    """
    title = "95% intervals over problems"
    print_table(overview_table(results, ks=ks or None), title=title)
    for name, source in results.items() if by is not None else ():
        groups = results_by(load_results(source, ks=ks), str(by))
        rows = {f"{v} ({len(p['per_problem']['ids'])})": p for v, p in groups.items()}
        print_table(groups_table(rows, heading=f"{by} (problems)", ks=ks or KS), title=name)


def print_cut_off(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print which share of the samples was cut off by length, with a warning where it is large."""
    for name, found in results.items():
        share = cut_off(found)
        if share is None:
            continue
        print(f"{name}: {share:.1%} of the samples cut off by max_new_tokens")  # noqa: T201
        if share > MOST_CUT_OFF:
            print(  # noqa: T201
                f"warning: {name}: {share:.0%} of the samples were cut off before their end, so "
                "that the metrics say more about sampling.max_new_tokens than about the model",
                file=sys.stderr,
            )


def print_outcomes(results: Mapping[str, Any]) -> None:
    """Print how many samples had each outcome, and how many are unscored."""
    print_table(outcomes_table(results), title="the first outcome of a sample that is not passed")


def print_table(table: Table, *, title: str) -> None:
    """Print a table with its best cells bold and the second best underlined.

    Where standard output is not a terminal it is as wide as it needs to be, and footnote marks
    stand for the styles.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    styled = sys.stdout.isatty()
    marks = {cell.mark for row in table.rows for cell in row}
    if not styled and marks & _FOOTNOTES.keys():
        title += "\n¹ best, ² second best"  # a line of its own: a caption is as wide as its table
    shown = RichTable(
        *(escape(name) for name in table.header), caption=title, caption_justify="left"
    )
    for row in table.rows:
        shown.add_row(*(_text(cell, styled=styled) for cell in row))
    Console(width=None if styled else _width(shown)).print(shown)


def _width(shown: RichTable) -> int:
    from rich.console import Console

    return max(160, Console(width=10_000).measure(shown).maximum)


def _text(cell: Cell, *, styled: bool) -> str:
    from rich.markup import escape

    style = _STYLES[cell.mark] if styled else ""
    text = escape(cell.text) + ("" if styled else _FOOTNOTES.get(cell.mark, ""))
    text = f"[{style}]{text}[/{style}]" if style else text
    small = " ".join(filter(None, (cell.detail, cell.note and f"({cell.note})")))
    return f"{text}\n[dim]{escape(small)}[/dim]" if small else text


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
    console = _console()
    console.print(table)
    console.print(
        "* read if no split is named. From the hub each needs the package 'datasets' and a "
        "network; with --file a local file or folder of the same schema (JSONL, JSON, parquet).",
        markup=False,
        soft_wrap=True,
    )


def print_problem(solved: SolvedProblem, *, tests: int) -> None:
    """Print a problem: what it is, its prompt, some tests, and its reference solution."""
    from rich.syntax import Syntax

    problem, console = solved.problem, _console()
    facts = {
        "tests": len(problem.tests),
        "compare": problem.compare or "the verifier's own rule",
        "time limit": f"{problem.time_limit_s} s" if problem.time_limit_s else "the verifier's own",
        "memory limit": f"{problem.memory_limit_mb} MiB"
        if problem.memory_limit_mb
        else "the verifier's own",
        "entry point": problem.entry_point,
    }
    console.rule(problem.id)
    shown = [f"{name}: {value}" for name, value in facts.items() if value is not None]
    console.print("; ".join(shown), markup=False, style="dim")
    console.rule("prompt", align="left")
    console.print(problem.prompt, markup=False, highlight=False)
    for number, test in enumerate(problem.tests[:tests]):
        console.rule(f"test {number}", align="left")
        console.print(_test_text(test), markup=False, highlight=False)
    if len(problem.tests) > tests:
        console.print(f"... and {len(problem.tests) - tests} tests more", style="dim")
    console.rule("reference solution", align="left")
    console.print(Syntax(solved.solution, "python") if solved.solution else "none in the data set")


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
    console = _console()
    console.print(table)
    for file, facts in manifest["files"].items():
        line = f"{folder / file}: {facts['lines']:,} lines, sha256 {facts['sha256'][:12]}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if 0 < sum(counts["left_out"].values()) <= _FEW:
        (listed,) = (folder / file for file in manifest["files"] if file.endswith(_LEFT_OUT))
        for row in read_jsonl(listed, lambda row: LeftOut(row["row_id"], row["reason"])):
            line = f"  left out {row.row_id}: {row.reason}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_checked(checked: Checked) -> None:
    """Print how many reference solutions pass, and why the others do not."""
    from rich.table import Table as RichTable

    console = _console()
    failures = checked.failures
    console.print(
        f"{checked.problems}: {checked.passed} reference solutions pass, {len(failures)} fail, "
        f"{len(checked.unsolved)} problems have none",
        markup=False,
        soft_wrap=True,
    )
    if checked.unverified:
        names = ", ".join(checked.unverified)
        console.print(f"the verifier itself failed on {names}", markup=False, soft_wrap=True)
    if not failures:
        return
    outcomes = Counter(str(failure.outcome) for failure in failures)
    console.print(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))
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
    console.print(table)


def _test_text(test: TestCase) -> str:
    fields = test.to_json()
    return "\n".join(f"{name}:\n{_shortened(text)}" for name, text in fields.items())


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)
