import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.problems.benchmarks.literals import json_literal, python_literal

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=10,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES | st.sets(st.integers() | st.text(), min_size=1))
def test_a_literal_is_the_value_again(value):
    assert ast.literal_eval(python_literal(value)) == value


@given(JSON)
def test_a_json_value_becomes_the_literal_of_the_same_value(value):
    assert ast.literal_eval(json_literal(json.dumps(value))) == value


def test_what_has_no_literal_is_refused():
    for value in (float("nan"), [float("nan")]):
        with pytest.raises(ValueError, match="nan has no Python literal"):
            python_literal(value)
