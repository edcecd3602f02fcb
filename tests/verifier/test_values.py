import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.verifier.inside import values

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary() | st.complex_numbers(allow_nan=False)
)  # fmt: skip
anything = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.frozensets(atoms)
        | st.sets(atoms)
        | st.dictionaries(atoms, inner)
    ),
    max_leaves=20,
)


def typed(value):
    """Return the value with its types, because 1 == True == 1.0."""
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [typed(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value), value
    return type(value), struct.pack("d", value) if isinstance(value, float) else value


@given(value=anything)
def test_values_come_back_with_their_types(value):
    assert typed(values.decode(values.encode(value))) == typed(value)


@given(data=st.binary(max_size=200))
def test_noise_decodes_to_a_builtin_or_a_value_error(data):
    assert_refused_or_builtin(data)


@given(value=anything, cut=st.integers(1, 20), noise=st.binary(max_size=3))
def test_damaged_encodings_are_refused_or_builtins(value, cut, noise):
    assert_refused_or_builtin(values.encode(value)[:-cut] + noise)


def assert_refused_or_builtin(data):
    try:
        value = values.decode(data)
    except ValueError:
        return
    values.encode(value)  # which refuses all that is no builtin


@pytest.mark.parametrize("value", [object(), print, type, iter([])])
def test_other_types_cannot_cross(value):
    with pytest.raises(ValueError, match="cannot leave the sandbox"):
        values.encode([value])


def test_depth_is_capped_on_both_sides():
    value = []
    for _ in range(250):
        value = [value]
    with pytest.raises(ValueError, match="deeply"):
        values.encode(value)
    with pytest.raises(ValueError, match="deeply"):
        values.decode(b"l1:" * 250 + b"N")


def test_a_length_that_lies_takes_no_memory():
    with pytest.raises(ValueError, match="fit"):
        values.decode(b"l999999999999:N")
