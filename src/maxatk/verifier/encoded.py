"""What a program printed or returned, compared and shown without building what it says.

The encoded value of a call is never decoded in the host: a set or dict of chosen integers, all with
one hash, takes quadratic time to build, and a value of one byte takes many times that in memory.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Generator

from maxatk.verifier.inside import values

MOST = 200  # characters of an excerpt

_SHORT = 32  # bytes that stand for themselves; longer content is replaced by its hash
_CONTAINERS = {b"l": b"l", b"t": b"t", b"S": b"S", b"z": b"S", b"d": b"d"}  # sets equal frozensets
_LONGEST_NUMBER = 64  # bytes of an encoded number that is written out
_BRACKETS = {b"l": ("[", "]"), b"t": ("(", ")"), **dict.fromkeys((b"S", b"z", b"d"), ("{", "}"))}


def same_value(data: bytes, expected: bytes) -> bool:
    """Say whether two encodings hold values that are equal by `==`; what is no encoding is not.

    Linear in both (n log n where they hold sets or dicts); `expected` is trusted to be small.
    """
    if data == expected:
        return b"nan" not in data or _digest(data, len(data)) is not None  # nan equals nothing
    wanted = _digest(expected, len(expected))
    if wanted is None:
        return False
    _, elements = wanted
    return _digest(data, elements) == wanted


def _digest(data: bytes, most: int) -> tuple[bytes, int] | None:
    """Return the digest and the number of elements; None for more than `most`, or no value."""
    at = 0
    left = most

    def value(depth: int) -> bytes:
        nonlocal at, left
        left -= 1
        if left < 0:  # it cannot be equal, and might be made to take all memory
            raise ValueError("more elements than expected")
        tag, size, at = values.header(data, at, depth)
        if tag in _CONTAINERS:
            parts = [value(depth + 1) for _ in range(size)]
            return _short(_CONTAINERS[tag], _joined(_CONTAINERS[tag], parts))
        content = data[at : at + size]
        at += size
        atom = values.atom(tag, content)
        if isinstance(atom, (int, float, complex)):
            return _number(atom)
        if isinstance(atom, str):
            return _short(b"s", atom.encode("utf-8", "surrogatepass"))
        return b"N" if atom is None else _short(b"b", bytes(atom))

    try:
        digest = value(0)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return (digest, most - left) if at == len(data) else None


def _joined(tag: bytes, parts: list[bytes]) -> bytes:
    """Return the digests of a container's parts in an order that equal containers share."""
    if tag == b"S":
        parts = [part for part, _ in itertools.groupby(sorted(parts))]
    elif tag == b"d":
        items = sorted(zip(parts[::2], parts[1::2], strict=True))
        keys = [key for key, _ in items]
        if any(key == following for key, following in itertools.pairwise(keys)):
            raise ValueError("a key occurs twice")
        parts = [part for item in items for part in item]
    # A part has fewer than 256 bytes, so that its length fits into one.
    return b"".join([b"%c%b" % (len(part), part) for part in parts])


def _number(value: complex) -> bytes:
    """Return the digest of a number: numbers of all types are equal by their value."""
    if value.imag:
        return _short(b"c", b"%b %b" % (_number(value.real), _number(value.imag)))
    real = value.real
    if isinstance(real, int) or (math.isfinite(real) and real.is_integer()):
        return _short(b"i", b"%x" % int(real))
    if math.isnan(real):
        raise ValueError("nan equals nothing")
    return _short(b"f", real.hex().encode())


def _short(tag: bytes, content: bytes) -> bytes:
    if len(content) <= _SHORT:
        return tag + content
    return b"#" + hashlib.sha256(tag + content).digest()


def cut(text: str) -> str:
    """Return the first `MOST` characters of a text, with an ellipsis where there are more."""
    return text if len(text) <= MOST else text[:MOST] + "…"


def printed_excerpt(output: bytes) -> str:
    """Return the beginning of what was printed."""
    # Four bytes a character at most; one that is cut in two becomes a replacement at the end.
    return cut(output[: 4 * (MOST + 1)].decode("utf-8", "replace"))


def value_excerpt(encoded: bytes) -> str:
    """Return the beginning of the `repr` of an encoded value; "" where it is not one."""
    text = ""
    try:
        for part in _texts(encoded, 0, 0):
            text += part
            if len(text) > MOST:
                break
    except (ValueError, IndexError, TypeError, OverflowError):
        return ""
    return cut(text)


def _texts(data: bytes, at: int, depth: int) -> Generator[str, None, int]:
    """Yield the text of the value that starts here, part by part; return where it ends."""
    tag, size, start = values.header(data, at, depth)
    if tag not in _BRACKETS:
        content = data[start : start + min(size, 4 * MOST)]
        if tag == b"s":
            yield repr(content.decode("utf-8", "replace"))
        elif tag in (b"b", b"a") or size <= _LONGEST_NUMBER:
            yield repr(values.atom(tag, content))
        else:
            yield f"<a number of {size} hexadecimal digits>"
        return start + size
    if not size and tag in (b"S", b"z"):
        yield "set()"
        return start
    opening, closing = _BRACKETS[tag]
    yield opening
    at = start
    for number in range(size):
        if number:
            yield ": " if tag == b"d" and number % 2 else ", "
        at = yield from _texts(data, at, depth + 1)
    yield ",)" if tag == b"t" and size == 1 else closing
    return at
