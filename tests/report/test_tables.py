"""What tables are made of: rows of one length, columns that know their cells, marks and notes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.evaluation.results import Mean
from maxatk.report.tables import (
    Cell,
    Table,
    decimal,
    mean_cell,
    metric_cells,
    p_value,
    ranks,
    table_of,
)


def mean(value, *, problems=100, below=100):
    """What `metrics` of a results object holds of a metric at a k."""
    ends = (None, None) if value is None else (value - 0.1, value + 0.1)
    return Mean(value, *ends, problems=problems, below=below)


def test_a_table_may_have_no_rows():
    assert Table(("a", "b"), ()).rows == ()


@given(st.integers(0, 5), st.integers(1, 5))
def test_columns_become_a_header_and_rows(rows, columns):
    table = table_of({f"column {c}": [f"{row}/{c}" for row in range(rows)] for c in range(columns)})
    assert table.header == tuple(f"column {c}" for c in range(columns))
    assert [[cell.text for cell in row] for row in table.rows] == [
        [f"{row}/{c}" for c in range(columns)] for row in range(rows)
    ]


def test_columns_of_different_lengths_make_no_table():
    with pytest.raises(ValueError, match="shorter"):
        table_of({"a": ["1", "2"], "b": ["3"]})


def test_a_number_has_its_decimals_and_a_missing_one_is_a_dash():
    assert [decimal(12.345, 1), decimal(None, 1), decimal(2.0, 0)] == ["12.3", "–", "2"]


def test_best_and_second_of_a_column_are_marked_and_the_starred_one_has_its_star():
    means = {"a": mean(0.5), "b": mean(0.7), "c": mean(None), "d": mean(0.1)}
    a, b, c, d = metric_cells(means, of=100, starred="b")
    assert b == Cell("0.700", "[0.600, 0.800]", "best", starred=True)
    assert a == Cell("0.500", "[0.400, 0.600]", "second")
    assert c == Cell("–", "")
    assert d.mark == ""


def test_a_shaded_column_goes_from_its_lowest_to_its_highest():
    cells = metric_cells({"a": mean(0.5), "b": mean(0.7), "c": mean(0.6)}, of=100, shade=True)
    assert [cell.shade for cell in cells] == [0, 1, pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("average", "note"),
    [
        (mean(0.5), ""),
        (mean(0.5, problems=65), "65 problems"),
        (mean(0.9, below=7), "7 problems below 1"),
        (mean(0.99, below=1), "1 problem below 1"),
        (mean(1.0, below=0), "0 problems below 1"),
        (mean(0.9, problems=65, below=7), "65 problems, 7 problems below 1"),
        (mean(0.9, problems=1000, below=30), "1,000 problems"),  # 30 are enough to rest on
        (mean(0.5, problems=12, below=8), "12 problems"),  # most are not at the ceiling
        (mean(0.5, below=None), ""),
    ],
)
def test_a_note_says_what_a_mean_rests_on(average, note):
    of = 100 if average.problems <= 100 else 2000
    assert mean_cell(average, of=of).note == note
    for shade in (False, True):
        assert [cell.note for cell in metric_cells({"a": average}, of=of, shade=shade)] == [note]


@given(st.lists(st.none() | st.integers(0, 6).map(lambda i: i / 6), min_size=2, max_size=6))
def test_marks_are_those_of_the_two_largest_values_unless_all_agree(means):
    order = sorted({value for value in means if value is not None}, reverse=True)
    if len(set(means)) == 1:
        order = [None, None, *order]
    for value, mark in zip(means, ranks(means), strict=True):
        place = None if value is None else order.index(value)
        assert mark == {0: "best", 1: "second"}.get(place, "")


def test_a_column_may_have_texts_and_cells():
    table = table_of({"a": ["1", Cell("2", mark="above")]})
    assert table.rows == ((Cell("1"),), (Cell("2", mark="above"),))


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "–"), (0.0004, "<0.001"), (0.0005, "0.001"), (0.04, "0.040"), (1.0, "1.000")],
)
def test_p_values(p, text):
    assert p_value(p) == text
