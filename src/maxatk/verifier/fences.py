"""Fenced blocks in what a language model wrote, and whether a text is a Python program."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import NamedTuple

PYTHON = re.compile(r"(?:i?python|py|pypy)[\d.]*", re.IGNORECASE)
"""The marks of a block in Python, with or without a version."""

FILE = "<truncated program>"
LONGEST = 1 << 14
"""Characters of a text that is parsed; what is longer is left as it is."""
MOST_ATTEMPTS = 32

_LANGUAGE = re.compile(r"[\w+#.-]*")
_BLANK = " \t\u200b\u200c\u200d\u2060\ufeff"  # what may stand before a fence; some are not seen
_BEHIND_LINE = re.compile(r"(?<=\n)")  # nothing else ends a line, as splitlines would have it
_QUOTED_FENCE = re.compile(r"^[ ]{0,3}>[ ]?[ \t]*(?:```|~~~)", re.MULTILINE)
_PLAIN_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_ONE_LINE = re.compile(r"^[ \t]*```(?:python|py)[\d.]*[ \t]+([^`\n]+)```[ \t]*$", re.M | re.I)

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(FILE))


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


class _Fence(NamedTuple):
    indent: str
    mark: str  # of backticks or tildes
    language: str


def read_fences(text: str) -> Fences:
    """Return the blocks of a text, also those in a block of Markdown and in a quotation."""
    if _QUOTED_FENCE.search(text) and not _PLAIN_FENCE.search(text):
        text = _QUOTE.sub("", text)
    fences = _read_fences(text)
    if not fences.closed and fences.unclosed is None:
        fences = Fences(_one_line_blocks(text), None)
    closed: list[Block] = []
    for block in fences.closed:
        closed += _blocks_of_markdown(block) or [block]
    return Fences(closed, fences.unclosed)


def _blocks_of_markdown(block: Block) -> list[Block]:
    """Return the blocks inside a block that is an answer as a whole, [] for any other block."""
    if block.language not in ("markdown", "md", "") or "```" not in block.text:
        return []
    if not block.language and is_program(block.text):
        return []
    inner = _read_fences(block.text).closed
    return [part._replace(start=block.start, end=block.end) for part in inner]


def _one_line_blocks(text: str) -> list[Block]:
    """Return the blocks that begin and end in one line, such as ```` ```python print(1)``` ````."""
    return [
        Block("python", match[1].strip() + "\n", match.start(), match.end())
        for match in _ONE_LINE.finditer(text)
    ]


def _read_fences(text: str) -> Fences:
    """Return language and text of each closed block, and the text of one left open.

    A fence after text on its line or indented by four more, and a first one without a language,
    which the prompt may have opened, closes what is a program up to there; else it opens a block.
    """
    closed: list[Block] = []
    opened: _Fence | None = None
    content: list[str] = []
    attempts = MOST_ATTEMPTS
    start = 0  # of the block that is open
    line_start = 0
    for line in _BEHIND_LINE.split(text):
        line_end = line_start + len(line)
        before, fence = _fence(line)
        if fence is None:
            content.append(line)
            line_start = line_end
            continue
        if opened is None:
            closes = not closed and not fence.language
            must_parse = True
        else:
            closes = fence.mark.startswith(opened.mark) and not fence.language
            deeper = len(fence.indent) > len(opened.indent) + 3  # as in the docstring of a function
            in_docstring = deeper and PYTHON.fullmatch(opened.language) is not None
            must_parse = bool(before) or in_docstring
        if closes and must_parse:
            attempts -= 1
            closes = attempts >= 0 and is_program(textwrap.dedent("".join(content) + before))
        if closes:
            if before:
                content.append(before.rstrip() + "\n")
            # What stands behind the mark, such as a special token, is outside of the block.
            mark_end = line_start + line.rfind(fence.mark) + len(fence.mark)
            closed.append(_block(opened, content, start, mark_end))
            opened = None
            content = []
            start = mark_end
        elif opened is None:
            opened = fence
            content = []
            start = line_start + len(before)
        else:
            content.append(line)
        line_start = line_end
    unclosed = None if opened is None else _block(opened, content, start, len(text)).text
    return Fences(closed, unclosed)


def _block(opened: _Fence | None, content: list[str], start: int, end: int) -> Block:
    """Return a block, whose lines lose the indentation of the fence if the first one has it."""
    indent, _, language = opened or _Fence("", "", "")
    first = next((line for line in content if line.strip()), "")
    if not first.startswith(indent):
        indent = ""
    if first.startswith("%%"):  # a command of a notebook, such as %%writefile
        content = content[content.index(first) + 1 :]
    text = "".join(line.removeprefix(indent) for line in content)
    return Block(language.lower(), text, start, end)


def _fence(line: str) -> tuple[str, _Fence | None]:
    """Return the text before the fence at the end of a line, and the fence, if there is one."""
    body = line.lstrip(_BLANK)
    if body.startswith(("```", "~~~")):
        behind_mark = body.lstrip(body[0])
        if "`" in behind_mark:
            return "", None
        language = _LANGUAGE.match(behind_mark.lstrip(" \t{."))
        mark = body[: len(body) - len(behind_mark)]
        return "", _Fence(line[: -len(body)], mark, language[0] if language else "")
    before, mark, language_text = line.rstrip().rpartition("```")
    if not mark or "```" in before.rstrip("`"):
        return "", None
    if not _LANGUAGE.fullmatch(language_text.strip()):
        return "", None
    text = before.rstrip("`")
    return text, _Fence("", "`" * (3 + len(before) - len(text)), language_text.strip())


def is_program(text: str) -> bool:
    """Say whether Python can parse a text and finds more in it than words."""
    tree = parsed(text)
    return tree is not None and any(not _is_prose(node) for node in tree.body)


def _is_prose(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, (ast.Call, ast.Await))
    return isinstance(node, ast.AnnAssign) and node.value is None  # such as "Note: this"


def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a text; None for one that is too long or no Python."""
    if len(text) > LONGEST:
        return None
    try:
        return ast.parse(text, filename=FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def longest_program(text: str) -> str:
    """Return the longest prefix of whole lines that Python can parse, or the text without one.

    No prefix that holds the line of a syntax error can be parsed, so that each attempt ends before
    the error of the last one. Attempts and characters are bounded.
    """
    if len(text) > LONGEST:
        return text
    lines = text.split("\n")
    for _ in range(MOST_ATTEMPTS):
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            break
        try:
            ast.parse("\n".join(lines), filename=FILE)
        except SyntaxError as error:
            del lines[min((error.lineno or 1) - 1, len(lines) - 1) :]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            return "\n".join(lines) + "\n"
    return text
