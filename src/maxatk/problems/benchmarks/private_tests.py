"""Private tests of LiveCodeBench and LiveBench, decoded without running what they contain.

They are a JSON list of {"input", "output", "testtype"}, or the same behind base64, zlib and
pickle. Unpickling a downloaded file can run any code, so this unpickler looks up no name at all:
the pickles hold one string. The decompressed size is bounded, so that a small row cannot fill the
memory.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from typing import Any

MAX_BYTES = 1 << 30
"""Largest decompressed size of one row's private tests, in bytes."""


class _Strings(pickle.Unpickler):
    """An unpickler of plain values: it refuses every name a pickle asks for."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}; only text is allowed")


def decode_tests(text: str, *, max_bytes: int = MAX_BYTES) -> list[dict[str, Any]]:
    """Return the tests of a `public_test_cases` or `private_test_cases` column.

    Raises ValueError saying which layer is corrupt, or that `max_bytes` are not enough.
    """
    try:
        tests = json.loads(text)
    except ValueError:
        tests = _decode_packed(text, max_bytes)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise ValueError("corrupt tests: must be a JSON list of objects")
    return tests


def _decode_packed(text: str, max_bytes: int) -> Any:
    layer = "neither JSON nor base64"
    try:
        packed = base64.b64decode(text.encode(), validate=True)
        layer = "not zlib data"
        plain = _inflate(packed, max_bytes)
        layer = "not a pickled text"
        inner = _Strings(io.BytesIO(plain)).load()
        layer = "not JSON inside the pickle"
        return json.loads(inner)
    except _TooLargeError:
        raise
    except (
        binascii.Error,
        zlib.error,
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        EOFError,
        AttributeError,
        IndexError,
        KeyError,
        MemoryError,
        OverflowError,
    ) as error:
        raise ValueError(f"corrupt tests: {layer} ({error})") from error


class _TooLargeError(ValueError):
    """The decompressed tests exceed the bound."""


def _inflate(packed: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    plain = stream.decompress(packed, max_bytes)
    if stream.unconsumed_tail:
        raise _TooLargeError(f"corrupt tests: larger than {max_bytes} bytes when decompressed")
    if not stream.eof:
        raise zlib.error("the data ends too early")
    return plain
