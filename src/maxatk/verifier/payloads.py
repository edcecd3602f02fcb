"""What the sandbox is given for each test, and where it puts what is printed."""

from __future__ import annotations

from typing import NamedTuple

from maxatk.records import TestCase
from maxatk.verifier.inside import protocol

MAX_SOURCE = 1 << 20
"""Bytes of a source."""


class Printed(NamedTuple):
    """What a test printed: a place in the results file of a zygote, in bytes."""

    offset: int
    size: int


class Payload(NamedTuple):
    """What the sandbox is given for one test, and the length of the function's name in it."""

    kind: int
    parts: tuple[bytes | Printed, ...]
    name_size: int = 0

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size if isinstance(part, Printed) else len(part) for part in self.parts)


def payload(test: TestCase, entry_point: str | None) -> Payload:
    """Return what the sandbox is given for a test, never the expected output.

    That may be in the source of a check test, behind the name, which only the checker reads.
    """
    if test.input is not None:
        return Payload(protocol.KIND_STDIN, (in_bytes(test.input),))
    if test.call is not None:
        return Payload(protocol.KIND_CALL, (in_bytes(test.call.strip()),))
    name = in_bytes(entry_point or "")
    return Payload(protocol.KIND_CHECK, (name, in_bytes(test.check or "")), len(name))


def checker_payload(test: TestCase, printed: Printed) -> Payload:
    """Return what the sandbox is given to run the checker on what a program printed in a test."""
    stdin = in_bytes(test.input or "")
    expected = in_bytes(test.output or "")
    header = protocol.CHECKER_SIZES.pack(len(stdin), len(expected), printed.size)
    return Payload(protocol.KIND_CHECKER, (header, stdin, expected, printed))


def in_bytes(text: str) -> bytes:
    """Return a text in UTF-8, also one with half of a pair of surrogates."""
    return text.encode("utf-8", "surrogatepass")
