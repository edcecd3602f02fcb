"""The beginning of what a program printed or returned, as text of bounded length, for people.

A value of a call is never built: its encoding is read from the start, and no further than the text
that is shown.
"""

from __future__ import annotations

from maxatk.verifier.inside import values

MOST = 200
"""Characters of an excerpt."""

_LONGEST_NUMBER = 64  # bytes of an encoded number that is written out
_BRACKETS = {b"l": ("[", "]"), b"t": ("(", ")"), **dict.fromkeys((b"S", b"z", b"d"), ("{", "}"))}


def cut(text: str) -> str:
    """Return the first `MOST` characters of a text, with an ellipsis where there are more."""
    return text if len(text) <= MOST else text[:MOST] + "…"


def printed_excerpt(output: bytes) -> str:
    """Return the beginning of what was printed."""
    # Four bytes a character at most; one that is cut in two becomes a replacement at the end.
    return cut(output[: 4 * (MOST + 1)].decode("utf-8", "replace"))


def value_excerpt(encoded: bytes) -> str:
    """Return the beginning of the `repr` of an encoded value; "" where it is not one."""
    reader = _Reader(encoded)
    try:
        reader.value(0)
    except _FullError:
        pass
    except (ValueError, IndexError, TypeError, OverflowError):
        return ""
    return cut("".join(reader.parts))


class _FullError(Exception):
    """The excerpt is long enough."""


class _Reader:
    """One pass over an encoding, which ends as soon as there is more text than is shown."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.parts: list[str] = []
        self.left = MOST

    def value(self, depth: int) -> None:
        """Add the text of the value that starts here, and stand behind it."""
        tag, size, start = values.header(self.data, self.at, depth)
        if tag not in _BRACKETS:
            self.at = start + size
            self._add(_atom(tag, self.data[start : start + min(size, 4 * MOST)], size))
            return
        self.at = start
        opening, closing = _BRACKETS[tag]
        self._add("set()" if tag in (b"S", b"z") and not size else opening)
        for place in range(size):
            if place:
                self._add(": " if tag == b"d" and place % 2 else ", ")
            self.value(depth + 1)
        if tag not in (b"S", b"z") or size:
            self._add(",)" if tag == b"t" and size == 1 else closing)

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self.left -= len(text)
        if self.left < 0:
            raise _FullError


def _atom(tag: bytes, content: bytes, size: int) -> str:
    """Return the text of an atom of that many bytes, whose first ones are given."""
    if tag == b"s":
        return repr(content.decode("utf-8", "replace"))
    if tag not in (b"b", b"a") and size > _LONGEST_NUMBER:
        return f"<a number of {size} hexadecimal digits>"
    return repr(values.atom(tag, content))
