"""Tables as text of other programs: Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Literal, TypeAlias

from maxatk.errors import unknown_name
from maxatk.report.numbers import MINUS
from maxatk.report.tables import Cell, Table

TableFormat: TypeAlias = Literal["md", "csv", "latex"]


def format_table(table: Table, table_format: TableFormat) -> str:
    """Return a table as text that ends with a newline.

    Markdown and LaTeX (for `booktabs`, and `colortbl` where columns are shaded) set the best of a
    column in bold and the second best underlined. CSV has a column more, `... interval` and
    `... mark`, for a column with such cells; numbers are written so that programs can read them,
    and a missing one is empty.

    Raises InvalidValueError for another format.
    """
    if table_format not in _FORMATS:
        raise unknown_name("format", table_format, _FORMATS)
    return _FORMATS[table_format](table)


def _markdown(table: Table) -> str:
    def text(cell: Cell) -> str:
        before, after = {"best": ("**", "**"), "second": ("<u>", "</u>")}.get(cell.mark, ("", ""))
        shown = f"{before}{cell.text.replace('*', chr(92) + '*')}{after}"
        return (f"{shown} {cell.detail}" if cell.detail else shown).replace("|", "\\|")

    lines = ["| " + " | ".join(name.replace("|", "\\|") for name in table.header) + " |"]
    lines.append("|---" * len(table.header) + "|")
    lines += ["| " + " | ".join(map(text, row)) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = list(zip(*table.rows, strict=True))
    with_detail = [any(cell.detail for cell in column) for column in columns]
    with_mark = [any(cell.mark or cell.text.endswith("*") for cell in column) for column in columns]

    def expanded(values: list[tuple[str, str, str]]) -> list[str]:
        found = []
        for (text, detail, mark), has_detail, has_mark in zip(
            values, with_detail, with_mark, strict=True
        ):
            found += [text, *([detail] if has_detail else []), *([mark] if has_mark else [])]
        return found

    names = [(name, f"{name} interval", f"{name} mark") for name in table.header]
    writer.writerow(expanded(names))
    for row in table.rows:
        writer.writerow(expanded([_plain(cell) for cell in row]))
    return out.getvalue()


def _plain(cell: Cell) -> tuple[str, str, str]:
    text = cell.text.removesuffix("*")
    mark = cell.mark + ("*" if text != cell.text else "")
    text = "" if text == "–" else text
    numeric = text.replace(MINUS, "-")
    return (numeric if _is_number(numeric) else text), cell.detail.replace(MINUS, "-"), mark


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
        star = "$^{*}$" if cell.text.endswith("*") else ""
        text = _escaped(cell.text.removesuffix("*"))
        before = {"best": r"\textbf{", "second": r"\underline{"}.get(cell.mark, "")
        shade = "" if cell.shade is None else rf"\cellcolor{{blue!{round(30 * cell.shade)}}}"
        shown = f"{shade}{before}{text}{'}' if before else ''}{star}"
        return shown + (rf" {{\scriptsize {_escaped(cell.detail)}}}" if cell.detail else "")

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
