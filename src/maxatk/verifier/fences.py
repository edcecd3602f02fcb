"""Fenced blocks in what a language model wrote: three backticks or tildes, as in Markdown.

Three quotes with a language behind them count too, in a text without another fence.

Models end a block in ways that Markdown does not know: behind code on the same line, with a
sentence behind the fence, or by opening the next block. Such a line may also be text of a program,
as in a docstring, which is found out by reading the program up to there.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from maxatk.verifier.python_source import LONGEST, MOST_ATTEMPTS, is_program

PYTHON = re.compile(r"(?:i?python|py|pypy)[\d.]*", re.IGNORECASE)
"""The marks of a block in Python, with or without a version."""

_MARKDOWN = ("markdown", "md")
_ENDS_OF_C = ("}", ";")  # no text in a Python program ends so
_BOLD_FENCE = re.compile(r"([ \t]*)\*\*(`{3,}|~{3,})([\w+#.-]*)\*\*\s*")
_LANGUAGE = re.compile(r"[\w+#.-]*")
_BLANK = " \t\u200b\u200c\u200d\u2060\ufeff"  # what may stand before a fence; some are not seen
_BEHIND_LINE = re.compile(r"(?<=\n)")  # nothing else ends a line, as splitlines would have it
_QUOTED_FENCE = re.compile(r"^[ ]{0,3}>[ ]?[ \t]*(?:```|~~~)", re.MULTILINE)
_PLAIN_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
# Some models open a block by quotes. Only a language behind them tells them from a text of Python.
_QUOTES = re.compile(
    r"""^([ \t]*)(\'\'\'|\"\"\")[ \t]*((?:python|py)[\d.]*|cpp|c\+\+|c)[ \t\r]*$""", re.M | re.I
)
_ONE_LINE = re.compile(r"^[ \t]*```(?:python|py)[\d.]*[ \t]+([^`\n]+)```[ \t]*$", re.M | re.I)


class Block(NamedTuple):
    """A fenced block: the language on its fence, its text, and where it lies in the whole text."""

    language: str
    text: str
    start: int
    end: int

    @property
    def is_python(self) -> bool:
        """Whether the fence says so; with a version it may be `python3.12`."""
        return PYTHON.fullmatch(self.language) is not None


class Fences(NamedTuple):
    """The closed blocks of a text, and the text of one left open, if any."""

    closed: list[Block]
    unclosed: str | None


def read_fences(text: str) -> Fences:
    """Return the blocks of a text, also those in a block of Markdown and in a quotation."""
    if _QUOTED_FENCE.search(text) and not _PLAIN_FENCE.search(text):
        text = _QUOTE.sub("", text)
    closed, unclosed = _blocks_of(text)
    if not closed and unclosed is None:
        closed = _one_line_blocks(text)
    if not closed and unclosed is None and _QUOTES.search(text) and not is_program(text):
        closed, unclosed = _QuoteReader(text).blocks()
    blocks: list[Block] = []
    for block in closed:
        blocks += _blocks_of_markdown(block) or [block]
    return Fences(blocks, None if unclosed is None else unclosed.text)


def _blocks_of_markdown(block: Block) -> list[Block]:
    """Return the blocks inside a block that is an answer as a whole, [] for any other block."""
    if block.language not in (*_MARKDOWN, "") or "```" not in block.text:
        return []
    if not block.language and is_program(block.text):
        return []
    inner, unclosed = _blocks_of(block.text)
    if unclosed is not None and unclosed.language:
        inner.append(unclosed)  # what looked like the end of the outer block was its end
    return [part._replace(start=block.start, end=block.end) for part in inner]


def _one_line_blocks(text: str) -> list[Block]:
    """Return the blocks that begin and end in one line, such as ```` ```python print(1)``` ````."""
    return [
        Block("python", match[1].strip() + "\n", match.start(), match.end())
        for match in _ONE_LINE.finditer(text)
    ]


class _QuoteReader:
    """Reads the blocks of a text that three quotes enclose."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._attempts = MOST_ATTEMPTS

    def blocks(self) -> tuple[list[Block], Block | None]:
        """Return the closed blocks, and the one left open."""
        closed: list[Block] = []
        opening = _QUOTES.search(self._text)
        while opening is not None:
            indent, quotes, language = opening.groups()
            start = opening.end() + 1
            closing = self._closing(f"{indent}{quotes}", start)
            end = len(self._text) if closing is None else closing.start()
            block = Block(language.lower(), self._text[start:end], opening.start(), end)
            if closing is None:
                return closed, block
            closed.append(block)
            opening = _QUOTES.search(self._text, closing.end())
        return closed, None

    def _closing(self, mark: str, start: int) -> re.Match[str] | None:
        """Return the line that ends a block, which may hold docstrings in the same quotes.

        It is the first one up to which the block is a program, or the first one at all; of very
        many lines, the last ones are not tried.
        """
        lines = re.compile(rf"^{mark}[ \t\r]*$", re.MULTILINE)
        first = lines.search(self._text, start)
        line = first
        while line is not None and self._attempts and line.start() - start <= LONGEST:
            self._attempts -= 1
            if is_program(textwrap.dedent(self._text[start : line.start()])):
                return line
            line = lines.search(self._text, line.end())
        return first


def _blocks_of(text: str) -> tuple[list[Block], Block | None]:
    """Return the closed blocks of a text, and the one left open."""
    reader = _Reader()
    start = 0
    for line in _BEHIND_LINE.split(text):
        reader.read(line, start)
        start += len(line)
    return reader.closed, reader.unclosed(len(text))


class _Fence(NamedTuple):
    """A line with a fence: its `mark` of backticks or tildes, which starts at a place of the line.

    `before` and `behind` are what else is on the line.
    """

    before: str
    mark: str
    behind: str
    start: int

    @property
    def end(self) -> int:
        """Where the mark ends on its line."""
        return self.start + len(self.mark)

    @property
    def follows_text(self) -> bool:
        """Whether more than blanks stand before it."""
        return bool(self.before.strip(_BLANK))

    @property
    def indent(self) -> str:
        """The blanks before it, "" where text stands there."""
        return "" if self.follows_text else self.before

    @property
    def language(self) -> str:
        """The first word behind it, which may stand in braces or behind a blank."""
        match = _LANGUAGE.match(self.behind.lstrip(" \t{."))
        return match[0] if match else ""

    @property
    def opens(self) -> bool:
        """Whether what stands behind it names the language of a block, and is no sentence."""
        if not self.language or PYTHON.fullmatch(self.language):
            return bool(self.language)
        words = self.behind.strip()
        several = " " in words and (words[0].isupper() or self.behind.startswith(" "))
        return words.isascii() and not several and not words.endswith((".", ":", "!", "?"))


def _fence(line: str) -> _Fence | None:
    """Return the fence at the beginning or at the end of a line, None without one."""
    bold = _BOLD_FENCE.fullmatch(line)
    if bold is not None:
        indent, mark, language = bold.groups()
        return _Fence(indent, mark, language, bold.start(2))
    body = line.lstrip(_BLANK)
    if body.startswith(("```", "~~~")):
        behind = body.lstrip(body[0])
        if "`" in behind:  # code in a line of text
            return None
        blanks = line[: len(line) - len(body)]
        mark = body[: len(body) - len(behind)]
        return _Fence(blanks, mark, behind, len(blanks))
    before_last, last, behind = line.rstrip().rpartition("```")
    before = before_last.rstrip("`")
    if not last or "```" in before or not _LANGUAGE.fullmatch(behind.strip()):
        return None
    return _Fence(before, before_last[len(before) :] + last, behind, len(before))


class _Reader:
    """Reads a text line by line: `closed` are its blocks so far, and one may be open."""

    def __init__(self) -> None:
        self.closed: list[Block] = []
        self._opened: _Fence | None = None
        self._lines: list[str] = []  # of the block that is open, or since the last one
        self._length = 0  # of them in characters
        self._has_long_string = False  # of several lines, such as a docstring: one begins in them
        self._start = 0  # of the block that is open
        self._attempts = MOST_ATTEMPTS

    def read(self, line: str, line_start: int) -> None:
        """Read the next line, which starts at a place of the text."""
        fence = _fence(line)
        if fence is None:
            self._add(line)
        elif self._is_end(fence):
            if fence.follows_text:
                self._add(fence.before.rstrip() + "\n")
            # What stands behind the mark, such as a special token, is outside of the block.
            mark_end = line_start + fence.end
            self.closed.append(self._block(mark_end))
            self._begin(fence if fence.opens else None, mark_end)
        elif self._opened is None:
            self._begin(fence, line_start + (fence.start if fence.follows_text else 0))
        else:
            self._add(line)

    def unclosed(self, text_end: int) -> Block | None:
        """Return the block that is open at the end of the text, None where none is."""
        return None if self._opened is None else self._block(text_end)

    def _begin(self, fence: _Fence | None, start: int) -> None:
        """Begin a block, or the text behind one where there is no fence."""
        self._opened = fence
        self._lines = []
        self._length = 0
        self._has_long_string = False
        self._start = start

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._length += len(line)
        if '"""' in line or "'''" in line:
            self._has_long_string = True

    def _is_end(self, fence: _Fence) -> bool:
        """Say whether a fence ends a block: the open one, or one that the prompt has opened."""
        opened = self._opened
        if opened is None:
            return not self.closed and not fence.opens and self._is_program(fence)
        if not fence.mark.startswith(opened.mark):
            return False
        if opened.language.lower() in _MARKDOWN:
            return not fence.opens and not fence.follows_text  # else it begins a block in this one
        if opened.language and PYTHON.fullmatch(opened.language) is None:
            return True
        # From here on what is open may be Python, whose strings and comments may hold a fence.
        if fence.follows_text:
            ends_c = fence.before.rstrip().endswith(_ENDS_OF_C)
            return not fence.opens and (ends_c or self._is_program(fence))
        is_deeper = bool(opened.language) and len(fence.indent) > len(opened.indent) + 3
        may_be_text = self._has_long_string and (is_deeper or fence.language != "")
        return not may_be_text or self._is_program(fence)

    def _is_program(self, fence: _Fence) -> bool:
        """Say whether what is open is a program up to a fence; of many fences, of the first."""
        if self._attempts == 0 or self._length > LONGEST:
            return False
        self._attempts -= 1
        before = fence.before if fence.follows_text else ""
        return is_program(textwrap.dedent("".join(self._lines) + before))

    def _block(self, end: int) -> Block:
        """Return what is open; its lines lose the indentation of the fence if the first has it."""
        indent = self._opened.indent if self._opened else ""
        language = self._opened.language if self._opened else ""
        lines = self._lines
        first = next((line for line in lines if line.strip()), "")
        if not first.startswith(indent):
            indent = ""
        if first.startswith("%%"):  # a command of a notebook, such as %%writefile
            lines = lines[lines.index(first) + 1 :]
        text = "".join(line.removeprefix(indent) for line in lines)
        return Block(language.lower(), text, self._start, end)
