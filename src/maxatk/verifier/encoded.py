"""What a program printed or returned, compared and shown without building what it says.

The encoded value of a call is never decoded in the host: a set or dict of chosen integers, all with
one hash, takes quadratic time to build, and a value of one byte takes many times that in memory.
"""

from __future__ import annotations

import cmath
import hashlib
import itertools
import math
from collections.abc import Generator

from maxatk.verifier.inside import values

MOST = 200  # characters of an excerpt

_SHORT = 32  # bytes that stand for themselves; longer content is replaced by its hash
_CONTAINERS = {b"l": b"l", b"t": b"t", b"S": b"S", b"z": b"S", b"d": b"d"}  # sets equal frozensets
_NUMBERS = (b"T", b"F", b"i", b"f", b"c")
_LONGEST_NUMBER = 64  # bytes of an encoded number that is written out
_BRACKETS = {b"l": ("[", "]"), b"t": ("(", ")"), **dict.fromkeys((b"S", b"z", b"d"), ("{", "}"))}


def same_value(
    data: bytes, expected: bytes, *, tolerance: float = 0.0, list_depth: int = 0
) -> bool:
    """Say whether two encodings hold values that are equal by `==`; what is no encoding is not.

    Floats may differ by `tolerance`, absolute or relative, where they are the value, its items or
    values of its dicts, at any depth; not in sets and keys. A tuple counts as a list if it lies
    less than `list_depth` deep. Linear in both (n log n where they hold sets or dicts); `expected`
    is trusted to be small.
    """
    if data == expected:
        return b"nan" not in data or _digest(data, len(data)) is not None  # nan equals nothing
    wanted = _digest(expected, len(expected), list_depth)
    if wanted is None:
        return False
    _, elements = wanted
    digest = _digest(data, elements, list_depth)
    if digest is None or digest == wanted or tolerance == 0:
        return digest == wanted
    return _Tolerant(data, expected, tolerance=tolerance, list_depth=list_depth).equal()


class _Tolerant:
    """Two encodings walked side by side; `_digest` has said that both hold values."""

    def __init__(self, data: bytes, expected: bytes, *, tolerance: float, list_depth: int) -> None:
        self._data = data
        self._expected = expected
        self._tolerance = tolerance
        self._list_depth = list_depth

    def equal(self) -> bool:
        """Say whether the values are equal but for floats that are close."""
        try:
            self._walk(0, 0, 0)
        except (ValueError, OverflowError):  # the latter: an integer above all floats
            return False
        return True

    def _walk(self, at: int, wanted_at: int, depth: int) -> tuple[int, int]:
        """Return where the values end that start here; raises ValueError if they are not equal."""
        tag, size, start = values.header(self._data, at, depth)
        wanted_tag, wanted_size, wanted_start = values.header(self._expected, wanted_at, depth)
        if depth < self._list_depth:
            tag = _as_list(tag)
            wanted_tag = _as_list(wanted_tag)
        if tag == wanted_tag and size == wanted_size:
            if tag in (b"l", b"t"):
                return self._walk_items(start, wanted_start, size, depth + 1)
            if tag == b"d":
                return self._walk_dict(start, wanted_start, size // 2, depth + 1)
        end = _end(self._data, at, depth)
        wanted_end = _end(self._expected, wanted_at, depth)
        if tag in _NUMBERS and wanted_tag in _NUMBERS:
            number = values.atom(tag, self._data[start:end])
            equal = self._close(
                number, values.atom(wanted_tag, self._expected[wanted_start:wanted_end])
            )
        else:
            equal = same_value(self._data[at:end], self._expected[wanted_at:wanted_end])
        if not equal:
            raise ValueError("not equal")
        return end, wanted_end

    def _walk_items(self, at: int, wanted_at: int, size: int, depth: int) -> tuple[int, int]:
        for _ in range(size):
            at, wanted_at = self._walk(at, wanted_at, depth)
        return at, wanted_at

    def _walk_dict(self, at: int, wanted_at: int, size: int, depth: int) -> tuple[int, int]:
        values_at: dict[tuple[bytes, int] | None, int] = {}  # by the digest of the key
        for _ in range(size):
            key_end = _end(self._data, at, depth)
            values_at[_digest(self._data[at:key_end], key_end - at)] = key_end
            at = _end(self._data, key_end, depth)
        for _ in range(size):
            key_end = _end(self._expected, wanted_at, depth)
            key = _digest(self._expected[wanted_at:key_end], key_end - wanted_at)
            if key not in values_at:
                raise ValueError("a key is missing")
            _, wanted_at = self._walk(values_at[key], key_end, depth)
        return at, wanted_at

    def _close(self, number: complex, wanted: complex) -> bool:
        if isinstance(number, int) and isinstance(wanted, int):
            return number == wanted
        return cmath.isclose(number, wanted, rel_tol=self._tolerance, abs_tol=self._tolerance)


def _as_list(tag: bytes) -> bytes:
    return b"l" if tag == b"t" else tag


def _end(data: bytes, at: int, depth: int) -> int:
    """Return where the value ends that starts at a place."""
    tag, size, start = values.header(data, at, depth)
    if tag not in _CONTAINERS:
        return start + size
    for _ in range(size):
        start = _end(data, start, depth + 1)
    return start


def _digest(data: bytes, most: int, list_depth: int = 0) -> tuple[bytes, int] | None:
    """Return the digest and the number of elements; None for more than `most`, or no value."""
    at = 0
    left = most

    def value(depth: int) -> bytes:
        nonlocal at, left
        left -= 1
        if left < 0:  # it cannot be equal, and might be made to take all memory
            raise ValueError("more elements than expected")
        tag, size, at = values.header(data, at, depth)
        if depth < list_depth:
            tag = _as_list(tag)
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
