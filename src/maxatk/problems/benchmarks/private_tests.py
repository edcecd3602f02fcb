"""Private tests of LiveCodeBench and LiveBench, decoded without running what they contain.

They are a JSON list of {"input", "output", "testtype"}, or the same behind base64, zlib and
pickle. Unpickling a downloaded file can run any code, and even one of plain values can take for
ever, so nothing is unpickled: the text of a pickle that holds one string is read out of its
instructions. The decompressed size is bounded, so that a small row cannot fill the memory.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any

MAX_BYTES = 1 << 30
"""Largest decompressed size of one row's private tests, in bytes."""


# What the pickle of one string consists of, in protocol 0 to 5, but for the string itself.
_AROUND = frozenset(("PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"))
_STRINGS = frozenset(("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"))


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
        inner = _unpickled_text(plain)
        layer = "not JSON inside the pickle"
        return json.loads(inner)
    except _TooLargeError:
        raise
    except (binascii.Error, zlib.error, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"corrupt tests: {layer} ({error})") from error


def _unpickled_text(plain: bytes) -> str:
    texts: list[str] = []
    for instruction, argument, _ in pickletools.genops(plain):
        if instruction.name in _STRINGS and not texts:
            texts.append(str(argument))
        elif instruction.name not in _AROUND:
            raise ValueError(f"the pickle uses {instruction.name}; only one text is allowed")
    return "".join(texts)


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
