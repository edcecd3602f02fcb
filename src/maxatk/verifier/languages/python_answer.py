"""The parts of an answer that may hold a Python program: its blocks, and the text around them."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from maxatk.verifier.fences import Block, read_fences
from maxatk.verifier.languages.python_definition import Binding, Definition
from maxatk.verifier.python_source import is_program, longest_program

# The tags that an answer may stand in, as regular expressions.
_TAGS = (
    (r"<answer>", r"</answer>"),
    (r"<solution>", r"</solution>"),
    (r"(?:<pre(?: [^>\n]*)?>\s*)?<code(?: [^>\n]*)?>", r"</code>"),
    (r"\[PYTHON\]", r"\[/PYTHON\]"),
    (r"\[BEGIN\]", r"\[DONE\]"),  # of MBPP's prompt
    (r"<\|begin_of_solution\|>", r"<\|end_of_solution\|>"),
    (r"<\|python_tag\|>", r"<\|eom_id\|>"),  # of Llama's calls of an interpreter
)
_TAG = re.compile(
    rf"^[ \t]*(?:{'|'.join(f'({opening})' for opening, _ in _TAGS)})", re.MULTILINE | re.IGNORECASE
)
_BEHIND_LINE = re.compile(r"(?<=\n)")


class Answer(NamedTuple):
    """The parts of an answer; `definition` is of what its program defines, where that is known."""

    text: str
    blocks: Sequence[Block]
    unclosed: str | None
    definition: Definition | None
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
    definition = Definition(entry_point) if entry_point else None
    text = _tagged(answer, definition)
    fences = read_fences(text)
    blocks = [block._replace(text=_flush_left(block.text, definition)) for block in fences.closed]
    unclosed = fences.unclosed
    if unclosed is not None:
        unclosed = _flush_left(unclosed, definition)
        unclosed = longest_program(unclosed) if repair_truncated else unclosed
    return Answer(text, blocks, unclosed, definition, repair_truncated)


def _tagged(text: str, definition: Definition | None) -> str:
    """Return what the last of the tags `_TAG` holds, as a block, where that is a program."""
    openings = list(_TAG.finditer(text))
    if not openings:
        return text
    opening = openings[-1]
    _, closing_tag = _TAGS[(opening.lastindex or 1) - 1]
    closing = re.compile(closing_tag, re.IGNORECASE).search(text, opening.end())
    inside = textwrap.dedent(text[opening.end() : closing.start() if closing else None])
    if "<pre" in opening[0].lower() and not re.search("[<>]", inside):
        inside = html.unescape(inside)  # HTML holds both signs as &lt; and &gt;
    if definition is not None and not definition.binding(inside):
        return text
    if "```" in inside or "~~~" in inside:
        return inside
    if not is_program(inside if closing else longest_program(inside)):
        return text
    return f"~~~python\n{inside.strip(chr(10))}\n" + ("~~~" if closing else "")


def _flush_left(text: str, definition: Definition | None) -> str:
    """Return a text without the indentation of its first line; the body of a function keeps it."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return text
    lines = "".join(line.removeprefix(indent) for line in _BEHIND_LINE.split(text))
    if definition is None or definition.binding_in_lines(lines) > Binding.IMPORTED:
        return lines
    return text  # the body of a function may import the name of another one
