"""What commands print: the same tables as text, Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import tyro

from maxatk.cli.terminal_table import print_table
from maxatk.errors import InvalidValueError, printable
from maxatk.report import Cell, Table, format_table
from maxatk.report.table_formats import as_csv, as_json
from maxatk.report.tables import TidyRow

_HELP = "How it is printed; csv (one table) and json (one object) have one number a field."
OutputFormat: TypeAlias = Annotated[
    Literal["text", "md", "csv", "latex", "json"], tyro.conf.arg(help=_HELP)
]
"""What every command that prints a table takes as `--format`."""

_NO_TABLE = Table((), ())


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
            print_table(output.table, output.title)
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


def emit_plan(plan: Mapping[str, Any], output_format: OutputFormat) -> None:
    """Print what a run would do, and what its own reward functions gave when they were tried."""
    counts = {name: value for name, value in plan.items() if name != "rewards"}
    values_by_name = plan.get("rewards", {})
    rows = [
        {"reward": name, "completion": place, "value": value}
        for name, values in values_by_name.items()
        for place, value in enumerate(values)
    ]
    tables = {"plan": Output([counts]), "rewards": Output(rows)}
    if not rows:
        del tables["rewards"]
    emit(tables, output_format, text=facts_text({**counts, **tried_rewards(values_by_name)}))


def tried_rewards(values_by_name: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return for people what reward functions gave when they were tried."""
    return {f"{name} of three completions": values for name, values in values_by_name.items()}


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
