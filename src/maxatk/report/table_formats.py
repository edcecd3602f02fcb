"""Tables as text: Markdown, CSV and LaTeX for people, CSV and JSON of tidy rows for programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from maxatk.errors import unknown_name
from maxatk.report.tables import MINUS, STAR, Cell, Table, TidyRow

TableFormat: TypeAlias = Literal["md", "csv", "latex"]
_NUMBER = re.compile(r"[+-]?\d*\.?\d+")


def format_table(table: Table, table_format: TableFormat) -> str:
    """Return a table as text that ends with a newline.

    LaTeX is for `booktabs`, and `colortbl` where columns are shaded. CSV has `... interval`,
    `... mark` and `... note` as columns. Raises InvalidValueError for another format.
    """
    if table_format not in _FORMATS:
        raise unknown_name("format", table_format, _FORMATS)
    return _FORMATS[table_format](table)


def _markdown(table: Table) -> str:
    def text(cell: Cell) -> str:
        before, after = {"best": ("**", "**"), "second": ("<u>", "</u>")}.get(cell.mark, ("", ""))
        return f"{before}{_plain_markdown(cell.text)}{after} {cell.small}".rstrip()

    lines = ["| " + " | ".join(map(_plain_markdown, table.header)) + " |"]
    lines.append("|---" * len(table.header) + "|")
    lines += ["| " + " | ".join(map(text, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _plain_markdown(text: str) -> str:
    """Return a text on one line that Markdown takes for no mark, no column and no HTML."""
    return re.sub(r"([|*]|<(?=[A-Za-z/!?]))", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)


def _csv(table: Table) -> str:
    columns = []
    for heading, *cells in zip(table.header, *table.rows, strict=True):
        parts = zip(*map(_plain, cells), strict=True) if cells else [()]
        for part, texts in zip(("", " interval", " mark", " note"), parts, strict=False):
            if not part or any(texts):
                columns.append([_no_formula(heading) + part, *texts])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
    return out.getvalue()


def _plain(cell: Cell) -> tuple[str, str, str, str]:
    text = cell.text.removesuffix(STAR)
    mark = cell.mark + (STAR if text != cell.text else "")
    text = "" if text == "–" else text
    numeric = text.replace(MINUS, "-")
    shown = numeric if _NUMBER.fullmatch(numeric) else _no_formula(text)
    return shown, cell.detail.replace(MINUS, "-"), mark, cell.note


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
    def cell_text(cell: Cell) -> str:
        star = "$^{*}$" if cell.text.endswith(STAR) else ""
        text = _escaped(cell.text.removesuffix(STAR))
        before = {"best": r"\textbf{", "second": r"\underline{"}.get(cell.mark, "")
        shade = "" if cell.shade is None else rf"\cellcolor{{blue!{round(30 * cell.shade)}}}"
        shown = f"{shade}{before}{text}{'}' if before else ''}{star}"
        return shown + (rf" {{\scriptsize {_escaped(cell.small)}}}" if cell.small else "")

    def line(cells: Iterable[str]) -> str:
        # A bracket at the start of a row would be read as an argument of the line break before.
        return "  " + " & ".join(f"{{{c}}}" if c.startswith("[") else c for c in cells) + r" \\"

    columns = "l" + "r" * (len(table.header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"  \toprule",
            line(map(_escaped, table.header)),
            r"  \midrule",
            *(line(map(cell_text, row)) for row in table.rows),
            r"  \bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


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
    # It writes null for NaN and infinities; what NumPy made is a float.
    found = json.loads(msgspec.json.encode(tables, enc_hook=float))
    return json.dumps(found, indent=1) + "\n"
