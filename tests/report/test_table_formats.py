import csv
import io

import pytest

from maxatk.errors import InvalidValueError
from maxatk.report import Cell, Table, format_table

TABLE = Table(
    ("model", "max@1", "change"),
    (
        (Cell("a_b & <c>"), Cell(".718", "[.700, .730]", "best", starred=True), Cell("−.010")),
        (Cell("x|y"), Cell(".710", "[.690, .720]", "second"), Cell("–")),
        (Cell("plain"), Cell(".100"), Cell("+.003", mark="above")),
    ),
)


def test_markdown():
    assert format_table(TABLE, "md").splitlines() == [
        "| model | max@1 | change |",
        "|---|---|---|",
        r"| a_b & \<c> | **.718\*** [.700, .730] | −.010 |",
        r"| x\|y | <u>.710</u> [.690, .720] | – |",
        "| plain | .100 | +.003 |",
    ]


def test_csv_can_be_read_by_programs():
    rows = list(csv.DictReader(io.StringIO(format_table(TABLE, "csv"))))
    assert [row["model"] for row in rows] == ["a_b & <c>", "x|y", "plain"]
    assert [float(row["max@1"]) for row in rows] == [0.718, 0.71, 0.1]
    assert [row["max@1 mark"] for row in rows] == ["best*", "second", ""]
    assert rows[0]["max@1 interval"] == "[.700, .730]"
    assert [row["change"] for row in rows] == ["-.010", "", "+.003"]


def test_a_name_that_ends_in_a_star_is_not_taken_for_a_significant_value():
    table = Table(("model", "max@1"), ((Cell("runs/*"), Cell(".718", starred=True)),))
    (row,) = csv.DictReader(io.StringIO(format_table(table, "csv")))
    assert row == {"model": "runs/*", "max@1": ".718", "max@1 mark": "*"}
    assert r"  runs/* & .718$^{*}$ \\" in format_table(table, "latex").splitlines()


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-x", "@a", "\tx"])
def test_no_cell_is_a_formula_of_a_spreadsheet(name):
    table = Table(("model", "max@1"), ((Cell(name), Cell("−.010")), (Cell("a=b"), Cell("+.003"))))
    rows = list(csv.reader(io.StringIO(format_table(table, "csv"))))
    assert rows[1:] == [["'" + name, "-.010"], ["a=b", "+.003"]]


def test_latex():
    lines = format_table(TABLE, "latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert lines[-1] == r"\end{tabular}"
    assert lines[4] == (
        r"  a\_b \& \textless{}c\textgreater{} & \textbf{.718}$^{*}$ {\scriptsize [.700, .730]}"
        r" & $-$.010 \\"
    )
    assert r"\underline{.710}" in lines[5]
    assert r"& -- \\" in lines[5]


def test_another_format_is_refused():
    with pytest.raises(InvalidValueError, match="unknown value 'markdwn'"):
        format_table(TABLE, "markdwn")


def test_shaded_cells_are_coloured_in_latex():
    table = Table(
        ("m", "x"), ((Cell("a"), Cell(".1", shade=0.0)), (Cell("b"), Cell(".9", shade=1)))
    )
    lines = format_table(table, "latex").splitlines()
    assert r"& \cellcolor{blue!0}.1 \\" in lines[4]
    assert r"& \cellcolor{blue!30}.9 \\" in lines[5]


NOTED = Table(
    ("model", "max@1"),
    (
        (Cell("a"), Cell(".950", "[.9, 1.0]", "best", note="7 problems below 1", starred=True)),
        (Cell("b"), Cell(".900", "[.8, .95]")),
    ),
)


def test_a_note_stands_in_brackets_and_in_a_column_of_its_own():
    assert format_table(NOTED, "md").splitlines()[2] == (
        r"| a | **.950\*** [.9, 1.0] (7 problems below 1) |"
    )
    first, second = csv.DictReader(io.StringIO(format_table(NOTED, "csv")))
    assert first == {
        "model": "a",
        "max@1": ".950",
        "max@1 interval": "[.9, 1.0]",
        "max@1 mark": "best*",
        "max@1 note": "7 problems below 1",
    }
    assert (second["max@1 mark"], second["max@1 note"]) == ("", "")
    assert "{\\scriptsize [.9, 1.0] (7 problems below 1)}" in format_table(NOTED, "latex")


@pytest.mark.parametrize("table_format", ["md", "csv", "latex"])
def test_a_table_without_rows_keeps_its_header(table_format):
    text = format_table(Table(("model", "max@1"), ()), table_format)
    assert "model" in text
    assert "max@1" in text
