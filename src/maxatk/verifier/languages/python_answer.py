"""The parts of an answer that may hold a Python program: its blocks, and the text around them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from maxatk.verifier.fences import Block, read_fences
from maxatk.verifier.python_source import is_program, longest_program

_TAG = re.compile(r"^[ \t]*(?:<(answer|solution|code)>|\[(PYTHON)\])", re.MULTILINE | re.IGNORECASE)
_BEHIND_LINE = re.compile(r"(?<=\n)")


class Answer(NamedTuple):
    """The parts of an answer; `defining` matches what its program defines, where that is known."""

    text: str
    blocks: Sequence[Block]
    unclosed: str | None
    defining: re.Pattern[str] | None
    repair_truncated: bool

    @property
    def in_python(self) -> list[str]:
        """The closed blocks whose fences say that they are Python."""
        return [block.text for block in self.blocks if block.is_python]

    @property
    def unmarked(self) -> list[str]:
        """The closed blocks whose fences name no language."""
        return [block.text for block in self.blocks if not block.language]

    @property
    def maybe_python(self) -> list[str]:
        """Both of them, in the order of the text."""
        return [block.text for block in self.blocks if block.is_python or not block.language]


def read_parts(answer: str, entry_point: str | None, *, repair_truncated: bool) -> Answer:
    """Return the parts of an answer, in which a program defines `entry_point` where that is known.

    Each is moved to the left margin. With `repair_truncated` a block that was never closed is cut
    to the most lines that are a program.
    """
    defining = _definition(entry_point) if entry_point else None
    text = _tagged(answer, defining)
    fences = read_fences(text)
    blocks = [block._replace(text=_flush_left(block.text, defining)) for block in fences.closed]
    unclosed = fences.unclosed
    if unclosed is not None:
        unclosed = _flush_left(unclosed, defining)
        unclosed = longest_program(unclosed) if repair_truncated else unclosed
    return Answer(text, blocks, unclosed, defining, repair_truncated)


def _definition(entry_point: str) -> re.Pattern[str]:
    """Return the pattern of a line that defines the name, or the class of a method's name."""
    name = re.escape(entry_point.partition(".")[0].removesuffix("()"))
    definition = rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b"
    assignment = rf"^{name}[ \t]*(?::[^=\n]{{1,200}})?=(?!=)"  # also one with an annotation
    return re.compile(f"{definition}|{assignment}", re.MULTILINE)


def _tagged(text: str, defining: re.Pattern[str] | None) -> str:
    """Return what the last of the tags `_TAG` holds, as a block, where that is a program."""
    openings = list(_TAG.finditer(text))
    if not openings:
        return text
    opening = openings[-1]
    name = opening[1] or opening[2]
    closing = re.compile(rf"</{name}>|\[/{name}\]", re.IGNORECASE).search(text, opening.end())
    inside = textwrap.dedent(text[opening.end() : closing.start() if closing else None])
    if defining is not None and not defining.search(inside):
        return text
    if "```" in inside or "~~~" in inside:
        return inside
    if not is_program(inside if closing else longest_program(inside)):
        return text
    return f"~~~python\n{inside.strip(chr(10))}\n" + ("~~~" if closing else "")


def _flush_left(text: str, defining: re.Pattern[str] | None) -> str:
    """Return a text without the indentation of its first line; the body of a function keeps it."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return text
    lines = "".join(line.removeprefix(indent) for line in _BEHIND_LINE.split(text))
    return lines if defining is None or defining.search(lines) else text
