import base64
import json
import pickle
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.problems.benchmarks.private_tests import decode_tests
from problems.rows import packed

TESTS = st.lists(st.fixed_dictionaries({"input": st.text(), "output": st.text()}))


@given(TESTS)
def test_both_encodings_give_the_tests_back(tests):
    assert decode_tests(json.dumps(tests)) == decode_tests(packed(tests)) == tests


class Runs:
    def __reduce__(self):
        return (print, ("this ran",))


def encoded(value):
    return base64.b64encode(zlib.compress(value)).decode()


def test_a_pickle_that_would_run_code_is_refused(capsys):
    with pytest.raises(ValueError, match="only one text is allowed"):
        decode_tests(encoded(pickle.dumps(Runs())))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "value", [Runs, json.loads, len, ValueError, {1: complex(1, 2)}, bytearray(b"x")]
)
def test_no_class_or_function_can_be_looked_up(value):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match="corrupt tests"):
            decode_tests(encoded(pickle.dumps(value, protocol)))


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("\xe9", "neither JSON nor base64"),
        ("a", "neither JSON nor base64"),
        ("", "not zlib data"),
        (base64.b64encode(b"plain").decode(), "not zlib data"),
        (base64.b64encode(zlib.compress(b"x" * 100)[:-6]).decode(), "not zlib data"),
        (encoded(b"no pickle"), "not a pickled text"),
        (encoded(pickle.dumps("x" * 100)[:-9]), "not a pickled text"),
        (encoded(pickle.dumps([1, 2])), "only one text is allowed"),
        (encoded(pickle.dumps("[1")), "not JSON inside"),
        (encoded(pickle.dumps('{"a": 1}')), "must be a JSON list of objects"),
        ("[1]", "must be a JSON list of objects"),
    ],
)
def test_what_is_corrupt_is_named(text, layer):
    with pytest.raises(ValueError, match=layer):
        decode_tests(text)


def test_a_small_pickle_that_takes_for_ever_is_refused():
    with pytest.raises(ValueError, match="only one text is allowed"):
        decode_tests(encoded(b"\x80\x04}" + nested_key(100) + b"K\x01s."))


def nested_key(depth):
    """Return instructions that leave on the stack a tuple whose hash takes 2 ** depth steps."""
    return b")" + b"q\x00h\x00\x86" * depth


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_texts_of_every_protocol_are_read(protocol):
    tests = [{"input": "\u00e9\n" * 300, "output": ""}]
    assert decode_tests(encoded(pickle.dumps(json.dumps(tests), protocol))) == tests


@given(st.binary(max_size=60))
def test_no_bytes_at_all_do_more_than_raise(data):
    for text in (base64.b64encode(data).decode(), encoded(data)):
        with pytest.raises(ValueError, match="corrupt tests"):
            decode_tests(text)


def test_the_decompressed_size_is_bounded():
    bomb = packed([{"input": "0" * (64 << 20), "output": ""}])
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="larger than 1048576 bytes when decompressed"):
        decode_tests(bomb, max_bytes=1 << 20)
    tests = [{"input": "0" * 1000, "output": ""}]
    size = len(pickle.dumps(json.dumps(tests)))
    assert decode_tests(packed(tests), max_bytes=size) == tests
