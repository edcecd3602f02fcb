"""Rows with group ids to a table and back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maxatk.engines.groups import Groups

IDS = st.lists(st.sampled_from(["a", "b", "c", 7]), min_size=1, max_size=30)


@given(ids=IDS, least=st.integers(1, 9))
def test_a_table_holds_every_row_once_beside_rows_of_its_group(ids, least):
    values = np.arange(len(ids), dtype=float)
    groups = Groups.of(ids, least=least)
    table = groups.table(values)
    np.testing.assert_array_equal(groups.rows(table), values)
    assert np.isfinite(table).sum() == len(ids)
    assert table.shape[1] == max(least, max(ids.count(one) for one in ids))
    for row in table:
        members = row[np.isfinite(row)].astype(int)
        assert len({str(ids[member]) for member in members}) == 1
        assert list(members) == sorted(members)  # in the order of the rows


def test_gaps_are_filled_with_what_is_asked_for():
    groups = Groups.of(["x", "y", "x"])
    np.testing.assert_array_equal(groups.table([1, 2, 3]), [[1, 3], [2, np.nan]])
    np.testing.assert_array_equal(groups.table([1, 2, 3], fill=0), [[1, 3], [2, 0]])
