"""Tables as text of other programs: Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from maxatk.errors import unknown_name
from maxatk.report.cells import STAR, Cell, Table
from maxatk.report.numbers import MINUS

TableFormat: TypeAlias = Literal["md", "csv", "latex"]


def format_table(table: Table, table_format: TableFormat) -> str:
    """Return a table as text that ends with a newline.

    Markdown and LaTeX (for `booktabs`, and `colortbl` where columns are shaded) set the best of a
    column in bold and the second best underlined. CSV has more columns, `... interval`, `... mark`
    and `... note`, for a column with such cells. Numbers are written so that programs can read
    them, a missing one is empty, and a text that a spreadsheet would compute gets an apostrophe.

    Raises InvalidValueError for another format.
    """
    if table_format not in _FORMATS:
        raise unknown_name("format", table_format, _FORMATS)
    return _FORMATS[table_format](table)


def _markdown(table: Table) -> str:
    def text(cell: Cell) -> str:
        before, after = {"best": ("**", "**"), "second": ("<u>", "</u>")}.get(cell.mark, ("", ""))
        shown = f"{before}{cell.text.replace(STAR, chr(92) + STAR)}{after}"
        note = f"({cell.note})" if cell.note else ""
        return " ".join(filter(None, (shown, cell.detail, note))).replace("|", "\\|")

    lines = ["| " + " | ".join(name.replace("|", "\\|") for name in table.header) + " |"]
    lines.append("|---" * len(table.header) + "|")
    lines += ["| " + " | ".join(map(text, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = [[_plain(cell) for cell in row] for row in table.rows]
    kept = [
        [part == 0 or any(row[place][part] for row in rows) for part in range(len(_PARTS))]
        for place in range(len(table.header))
    ]

    def line(cells: Sequence[Sequence[str]]) -> list[str]:
        return [
            text
            for parts, wanted in zip(cells, kept, strict=True)
            for text, there in zip(parts, wanted, strict=True)
            if there
        ]

    heads = [[f"{_no_formula(name)}{part}" for part in _PARTS] for name in table.header]
    writer.writerow(line(heads))
    writer.writerows(line(row) for row in rows)
    return out.getvalue()


_PARTS = ("", " interval", " mark", " note")
"""What is added to the heading of a column for the parts of its cells, each a column in CSV."""


def _plain(cell: Cell) -> tuple[str, str, str, str]:
    text = cell.text.removesuffix(STAR)
    mark = cell.mark + (STAR if text != cell.text else "")
    text = "" if text == "–" else text
    numeric = text.replace(MINUS, "-")
    shown = numeric if _is_number(numeric) else _no_formula(text)
    return shown, cell.detail.replace(MINUS, "-"), mark, cell.note


def _no_formula(text: str) -> str:
    """Return a text that a spreadsheet does not compute: a model may be named `=1+1`."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    MINUS: "$-$",
    "–": "--",
}


def _latex(table: Table) -> str:
    def cell_text(cell: Cell) -> str:
        star = "$^{*}$" if cell.text.endswith(STAR) else ""
        text = _escaped(cell.text.removesuffix(STAR))
        before = {"best": r"\textbf{", "second": r"\underline{"}.get(cell.mark, "")
        shade = "" if cell.shade is None else rf"\cellcolor{{blue!{round(30 * cell.shade)}}}"
        shown = f"{shade}{before}{text}{'}' if before else ''}{star}"
        note = f"({cell.note})" if cell.note else ""
        small = " ".join(filter(None, (cell.detail, note)))
        return shown + (rf" {{\scriptsize {_escaped(small)}}}" if small else "")

    def line(cells: list[str]) -> str:
        # A bracket at the start of a row would be read as an argument of the line break before.
        return "  " + " & ".join(f"{{{c}}}" if c.startswith("[") else c for c in cells) + r" \\"

    body = [line([cell_text(cell) for cell in row]) for row in table.rows]
    columns = "l" + "r" * (len(table.header) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"  \toprule",
            line([_escaped(name) for name in table.header]),
            r"  \midrule",
            *body,
            r"  \bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


_FORMATS: dict[str, Callable[[Table], str]] = {"md": _markdown, "csv": _csv, "latex": _latex}
