"""Tables as text: Markdown, CSV and LaTeX for people, CSV and JSON of tidy rows for programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from maxatk.check import one_of, require
from maxatk.report.tables import MINUS, STAR, Cell, Table, TidyRow

TableFormat: TypeAlias = Literal["md", "csv", "latex"]
_NUMBER = re.compile(r"[+-]?\d*\.?\d+")


def format_table(table: Table, table_format: TableFormat, *, caption: str = "") -> str:
    """Return a table as text that ends with a newline.

    LaTeX is for `booktabs`, and `colortbl` where columns are shaded. CSV has `... interval`,
    `... mark` and `... note` as columns. The `caption` is a paragraph below a table of Markdown, a
    comment in LaTeX, and not in CSV. Raises InvalidValueError for another format.
    """
    require(isinstance(table, Table), "table", "a Table", table)
    one_of("format", table_format, _FORMATS)
    require(isinstance(caption, str), "caption", "text", caption)
    text = _FORMATS[table_format](table)
    if caption and table_format == "md":
        text += f"\n{_plain_markdown(caption)}\n"
    elif caption and table_format == "latex":
        text += f"% {_one_line(caption)}\n"
    return text


def _markdown(table: Table) -> str:
    rows = [
        [_plain_markdown(heading) for heading in table.header],
        *([_markdown_cell(cell) for cell in row] for row in table.rows),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|---" * len(table.header) + "|")
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = _plain_markdown(cell.large)
    if cell.mark == "best":
        text = f"**{text}**"
    elif cell.mark == "second":
        text = f"<u>{text}</u>"
    return f"{text} {cell.small}".rstrip()


def _plain_markdown(text: str) -> str:
    """Return a text on one line that Markdown takes for no mark, no column and no HTML."""
    return re.sub(r"([|*]|<(?=[A-Za-z/!?]))", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)


def _csv(table: Table) -> str:
    columns = []
    for place, heading in enumerate(table.header):
        cells = [row[place] for row in table.rows]
        name = _no_formula(heading)
        columns.append([name, *map(_csv_value, cells)])
        parts_of_cells = {
            f"{name} interval": [cell.detail.replace(MINUS, "-") for cell in cells],
            f"{name} mark": [_starred_mark(cell) for cell in cells],
            f"{name} note": [cell.note for cell in cells],
        }
        columns += [[part, *texts] for part, texts in parts_of_cells.items() if any(texts)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
    return out.getvalue()


def _starred_mark(cell: Cell) -> str:
    return cell.mark + STAR if cell.starred else cell.mark


def _csv_value(cell: Cell) -> str:
    """Return the number or the text of a cell, without a star; a dash is an empty value."""
    if cell.text == "–":
        return ""
    number = cell.text.replace(MINUS, "-")
    return number if _NUMBER.fullmatch(number) else _no_formula(cell.text)


def _no_formula(text: str) -> str:
    """Return a text that a spreadsheet does not compute: a model may be named `=1+1`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


_ESCAPES = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        MINUS: "$-$",
        "–": "--",
    }
)


def _latex(table: Table) -> str:
    columns = "l" + "r" * (len(table.header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"  \toprule",
            _latex_row(map(_escaped, table.header)),
            r"  \midrule",
            *(_latex_row(map(_latex_cell, row)) for row in table.rows),
            r"  \bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _latex_row(cells: Iterable[str]) -> str:
    # A bracket at the start of a row would be read as an argument of the line break before.
    guarded = [f"{{{cell}}}" if cell.startswith("[") else cell for cell in cells]
    return "  " + " & ".join(guarded) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    if cell.mark == "best":
        text = rf"\textbf{{{text}}}"
    elif cell.mark == "second":
        text = rf"\underline{{{text}}}"
    if cell.shade is not None:
        text = rf"\cellcolor{{blue!{round(30 * cell.shade)}}}{text}"
    if cell.starred:
        text += "$^{*}$"
    if cell.small:
        text += rf" {{\scriptsize {_escaped(cell.small)}}}"
    return text


def _escaped(text: str) -> str:
    return _one_line(text).translate(_ESCAPES)


_FORMATS: dict[str, Callable[[Table], str]] = {"md": _markdown, "csv": _csv, "latex": _latex}


def as_csv(rows: Sequence[TidyRow]) -> str:
    """Return rows as CSV with a header, in ASCII; a number that does not exist is empty."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def as_json(tables: Mapping[str, Sequence[TidyRow]]) -> str:
    """Return tables of rows as one JSON object in ASCII; a number that does not exist is null."""
    # msgspec writes null for NaN and infinities, and by `enc_hook` numbers of NumPy; json indents.
    content = json.loads(msgspec.json.encode(tables, enc_hook=float))
    return json.dumps(content, indent=1) + "\n"
