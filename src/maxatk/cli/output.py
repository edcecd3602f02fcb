"""What commands print: the same tables as text, Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import tyro

from maxatk.errors import InvalidValueError, printable
from maxatk.evaluation.load import ResultsSource, load_results
from maxatk.evaluation.problem_groups import results_by
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import METRICS, MOST_CUT_OFF, RETRIED, Results
from maxatk.report import Cell, Table, format_table, outcomes_table, overview_table
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.table_formats import as_csv, as_json
from maxatk.report.tables import TidyRow, intervals_note, transposed

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_HELP = "How it is printed; csv (one table) and json (one object) have one number a field."
OutputFormat: TypeAlias = Annotated[
    Literal["text", "md", "csv", "latex", "json"], tyro.conf.arg(help=_HELP)
]
"""What every command that prints a table takes as `--format`."""

_STYLES = {"best": "bold", "second": "underline", "above": "green", "below": "red", "": ""}
_FOOTNOTES = {"best": "¹", "second": "²"}
_NO_TABLE = Table((), ())
_UNBROKEN = 100_000  # characters of a line of a table: more than it has


@dataclasses.dataclass(frozen=True)
class Output:
    """One table of a command: its rows for programs, and how people see it.

    `rows`, one number a field, are the JSON and the CSV; `table`, with `title` below it, the rest.
    """

    rows: Sequence[TidyRow]
    table: Table = _NO_TABLE
    title: str = ""


def emit(
    tables: Mapping[str, Output], output_format: OutputFormat = "text", *, text: str = ""
) -> None:
    """Print the tables of a command, alone on standard output.

    JSON is one object of lists of rows, CSV the first table. `text` follows the tables as text.
    """
    outputs = list(tables.values())
    for_people = [output for output in outputs if output.table.rows]
    if output_format == "json":
        print(as_json({name: output.rows for name, output in tables.items()}), end="")
    elif output_format == "csv":
        print(as_csv(outputs[0].rows), end="")
    elif output_format == "text":
        for output in for_people:
            _print_table(output.table, output.title)
        if text:
            print(printable(text))
    else:
        # A command that tells people in words alone has no table of them: its rows are one.
        listed = for_people or [shown(output.rows) for output in outputs]
        texts = [
            format_table(output.table, output_format, caption=output.title) for output in listed
        ]
        print("\n".join(texts), end="")


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return one thing that a command knows, such as a plan, for people: a line a fact."""
    width = max(map(len, facts), default=0)
    lines = []
    for name, value in facts.items():
        label = name.replace("_", " ")
        lines.append(f"{label:<{width}}  {_value(value)}")
    return "\n".join(lines)


def emit_facts(facts: Mapping[str, Any], output_format: OutputFormat, *, text: str) -> None:
    """Print one thing that a command knows; in JSON it is an object of its own."""
    if output_format == "json":
        print(json.dumps(facts))
    else:
        rows = [{"": name, "value": value} for name, value in facts.items()]
        emit({"facts": Output(rows)}, output_format, text=text)


def emit_plan(plan: Mapping[str, int], output_format: OutputFormat) -> None:
    """Print what a run would do."""
    emit({"plan": Output([plan])}, output_format, text=facts_text(plan))


def shown(rows: Sequence[TidyRow], *fields: str, title: str = "") -> Output:
    """Return rows that people see too, if there are any, with these fields or with all of them."""
    names = fields or tuple(rows[0] if rows else ())
    header = tuple(name.replace("_", " ") for name in names)
    cells = tuple(tuple(Cell(_value(row[name])) for name in names) for row in rows)
    return Output(rows, Table(header, cells), title)


def _value(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def results_output(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = (), by: str | None = None
) -> dict[str, Output]:
    """Return the tables "metrics", "by", "samples" and "outcomes" of one or more runs.

    People see max@k and pass@k with 95% intervals and, with `by`, a row for each value of that
    field of `meta`. Without the `ks` to show the text has those of the report, the rows all.
    """
    loaded = {name: load_results(source, ks=ks) for name, source in results.items()}
    metrics = [
        row for name, result in loaded.items() for row in metric_rows(result, ks, {"model": name})
    ]
    overview = overview_table(loaded, ks=ks)
    note = intervals_note(max(len(result.ids) for result in loaded.values()))
    tables = {"metrics": Output(metrics, overview, note)}
    if by is not None:
        tables["by"] = _by_field(loaded, by, ks)
    tables["samples"] = Output([_sample_row(name, result) for name, result in loaded.items()])
    tables["outcomes"] = Output(
        [
            {"model": name, "outcome": outcome, "samples": samples}
            for name, result in loaded.items()
            for outcome, samples in result.counts.outcomes.items()
        ]
    )
    return tables


def _by_field(loaded: Mapping[str, Results], by: str, ks: Sequence[int]) -> Output:
    """Return the metrics of the problems with each value of a field of `meta`."""
    rows: list[TidyRow] = []
    parts: dict[str, Results] = {}
    for name, result in loaded.items():
        for value, part in results_by(result, by).items():
            rows += metric_rows(part, ks, {"model": name, "field": by, "value": value})
            heading = f"{value} ({len(part.ids)})"
            parts[f"{name} {heading}" if len(loaded) > 1 else heading] = part
    note = f"95% intervals over the problems of a {by}"
    return Output(rows, groups_table(parts, heading=f"{by} (problems)", ks=ks or KS), note)


def _sample_row(name: str, result: Results) -> TidyRow:
    """Return how many samples a run has, and what became of those without a reward."""
    return {
        "model": name,
        "problems": result.counts.problems,
        "samples": result.counts.samples,
        **result.counts.row,
        "cut_off": result.cut_off,
        "reasons": "; ".join(result.counts.reasons),
    }


def metric_rows(
    results: Results, ks: Sequence[int], about: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield `about`, metric, k, mean with 95% interval and what it rests on, of every metric and k.

    `unscored` and `zeroed` count the run's samples without a reward, and with 0 in its place.
    """
    for metric in (*METRICS, RETRIED):
        by_k = results.metrics.get(metric, {})
        for k in ks or by_k:
            if k not in by_k:
                continue  # a retry needs 2k samples
            mean = by_k[k]
            yield {
                **about,
                "metric": metric,
                "k": k,
                "mean": mean.mean,
                "low": mean.low,
                "high": mean.high,
                "problems": mean.problems,
                **results.counts.row,
            }


def print_results(
    recipe: RunRecipe,
    results: Results,
    output_format: OutputFormat,
    *,
    with_outcomes: bool = False,
    text: str = "",
) -> None:
    """Print the tables of one run, and warn where so many samples were cut off that they mislead.

    `with_outcomes` shows people how many samples had each outcome. `text` follows the tables.
    """
    name = recipe.folder.name
    cut_off = results.cut_off
    tables = results_output({name: results}, ks=recipe.k, by=recipe.by)
    if with_outcomes:
        title = "the first outcome of a sample that is not passed"
        tables["outcomes"] = Output(tables["outcomes"].rows, outcomes_table(results), title)
    lines = []
    if results.counts.lacking:
        lines.append(f"{name}: {results.counts.lacking}")
    if cut_off is not None:
        lines.append(f"{name}: {cut_off:.1%} of the samples cut off by max_new_tokens")
    if text:
        lines.append(text)
    emit(tables, output_format, text="\n".join(lines))
    if cut_off is not None and cut_off > MOST_CUT_OFF:
        say_aside(
            f"warning: {name}: {cut_off:.0%} of the samples were cut off before their end, so that "
            "the metrics say more about sampling.max_new_tokens than about the model"
        )


def refuse_two_outputs(output_format: str, progress: str) -> None:
    """Raise InvalidValueError where both the table and the progress are to be JSON."""
    if output_format == "json" and progress == "json":
        raise InvalidValueError(
            "--progress: json and the table as JSON would both be written to standard output; "
            "give one of them"
        )


def say_aside(text: str) -> None:
    """Print a line to standard error: a note, a warning, how a run goes."""
    print(printable(text), file=sys.stderr, flush=True)


def _print_table(table: Table, title: str) -> None:
    # On a narrow terminal rows become columns where those are fewer, and texts are folded.
    from rich.console import Console

    if not sys.stdout.isatty():
        marks = {cell.mark for row in table.rows for cell in row}
        if marks & _FOOTNOTES.keys():
            title += "\n¹ best, ² second best"  # a line of its own: captions are wide as tables
        Console(width=_UNBROKEN).print(_rich_table(table, title, styled=False))
        return
    console = Console()
    rich_table = _rich_table(table, title, styled=True)
    width = Console(width=_UNBROKEN).measure(rich_table).maximum
    has_fewer_rows = 0 < len(table.rows) < len(table.header) - 1
    if has_fewer_rows and width > console.width:
        rich_table = _rich_table(transposed(table), title, styled=True)
    console.print(rich_table)


def _rich_table(table: Table, title: str, *, styled: bool) -> RichTable:
    """Return a table for rich: marks of cells are colours, or footnotes where there are none."""
    from rich.table import Table as RichTable
    from rich.text import Text

    def text(cell: Cell) -> Text:
        style = _STYLES[cell.mark] if styled else ""
        footnote = "" if styled else _FOOTNOTES.get(cell.mark, "")
        small = f"\n{cell.small}" if cell.small else ""
        return Text.assemble((printable(cell.text + footnote), style), (printable(small), "dim"))

    caption = Text(printable(title), "table.caption") if title else None
    rich_table = RichTable(caption=caption, caption_justify="left")
    for name in table.header:
        rich_table.add_column(Text(printable(name)), overflow="fold")
    for row in table.rows:
        rich_table.add_row(*map(text, row))
    return rich_table
