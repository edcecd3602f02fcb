"""What tables are made of: rows of one length, columns that know their cells, marks and notes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.report.cells import (
    Cell,
    Column,
    Table,
    number_column,
    ranked_column,
    ranks,
    rests_on,
    shaded_column,
    tabulate,
    text_column,
)
from maxatk.report.numbers import decimal, p_value


def mean(value, *, problems=100, below=100):
    """What `metrics` of a results object holds of a metric at a k."""
    ends = (None, None) if value is None else (value - 0.1, value + 0.1)
    counts = {"problems": problems, "below": below}
    return {"mean": value, "low": ends[0], "high": ends[1], **counts}


@pytest.mark.parametrize("cells", [0, 1, 3])
def test_a_row_of_another_length_is_refused(cells):
    row = tuple(Cell(f"c{i}") for i in range(cells))
    with pytest.raises(
        InvalidValueError, match=rf"has {cells} cells, the header \['a', 'b'\] has 2"
    ):
        Table(("a", "b"), ((Cell("x"), Cell("y")), row))


def test_a_table_may_have_no_rows():
    assert Table(("a", "b"), ()).rows == ()


@given(st.integers(0, 5), st.integers(1, 5))
def test_every_column_makes_one_cell_of_every_row(rows, columns):
    def column(place):
        return text_column(f"column {place}", lambda row: f"{row}/{place}")

    table = tabulate([column(place) for place in range(columns)], list(range(rows)))
    assert table.header == tuple(f"column {place}" for place in range(columns))
    assert [[cell.text for cell in row] for row in table.rows] == [
        [f"{row}/{place}" for place in range(columns)] for row in range(rows)
    ]


def test_a_number_has_its_decimals_and_a_missing_one_is_a_dash():
    column = number_column("tokens", {"a": 12.345, "b": None}.get, digits=1)
    assert [column.cell(name).text for name in ("a", "b")] == ["12.3", "–"]
    assert decimal(2.0, 0) == "2"


def test_best_and_second_of_a_column_are_marked_and_the_starred_one_has_its_star():
    means = {"a": mean(0.5), "b": mean(0.7), "c": mean(None), "d": mean(0.1)}
    column = ranked_column("max@8", means, of=100, starred="b")
    assert column.cell("b") == Cell(".700*", "[.600, .800]", "best")
    assert column.cell("a") == Cell(".500", "[.400, .600]", "second")
    assert column.cell("c") == Cell("–", "[–, –]")
    assert column.cell("d").mark == ""


def test_a_shaded_column_goes_from_its_lowest_to_its_highest():
    column = shaded_column("max@8", {"a": mean(0.5), "b": mean(0.7), "c": mean(0.6)}, of=100)
    assert [column.cell(name).shade for name in "abc"] == [0, 1, pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (mean(0.5), ""),
        (mean(0.5, problems=65), "65 problems"),
        (mean(0.9, below=7), "7 problems below 1"),
        (mean(0.99, below=1), "1 problem below 1"),
        (mean(1.0, below=0), "0 problems below 1"),
        (mean(0.9, problems=65, below=7), "65 problems, 7 problems below 1"),
        (mean(0.9, problems=1000, below=30), "1,000 problems"),  # 30 are enough to rest on
        (mean(0.5, problems=12, below=8), "12 problems"),  # most are not at the ceiling
        ({"mean": 0.5, "low": 0.4, "high": 0.6, "problems": 100}, ""),
    ],
)
def test_a_note_says_what_a_mean_rests_on(found, note):
    assert rests_on(found, of=100 if found["problems"] <= 100 else 2000) == note
    means = {"a": found}
    assert ranked_column("x", means, of=100).cell("a").note == rests_on(found, of=100)
    assert shaded_column("x", means, of=100).cell("a").note == rests_on(found, of=100)


@given(st.lists(st.none() | st.integers(0, 6).map(lambda i: i / 6), min_size=2, max_size=6))
def test_marks_are_those_of_the_two_largest_different_values(means):
    order = sorted({value for value in means if value is not None}, reverse=True)
    for value, mark in zip(means, ranks(means), strict=True):
        place = None if value is None else order.index(value)
        assert mark == {0: "best", 1: "second"}.get(place, "")


def test_a_column_can_be_of_anything():
    column = Column("twice", lambda row: Cell(str(2 * row), mark="above"))
    assert tabulate([column], (1, 2)).rows == (
        (Cell("2", mark="above"),),
        (Cell("4", mark="above"),),
    )


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "–"), (0.0004, "<.001"), (0.0005, ".001"), (0.04, ".040"), (1.0, "1.000")],
)
def test_p_values(p, text):
    assert p_value(p) == text
