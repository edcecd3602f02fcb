"""Take the program out of what a language model wrote."""

from __future__ import annotations

import ast
import dataclasses
import re
import warnings

_LANGUAGE = re.compile(r"[\w+#.-]*")
_PYTHON = ("python", "python3", "py", "py3")
_FILE = "<truncated program>"

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(_FILE))


_MOST_ATTEMPTS = 32
_LONGEST = 1 << 14  # characters: what is longer is left as it is


def extract_code(
    completion: str, entry_point: str | None = None, *, repair_truncated: bool = False
) -> str:
    """Return the program in a completion: the last complete fenced block, Python ones first.

    The rule, in order: the last closed block that defines `entry_point`, where that is known; the
    last closed block marked as Python; the last closed block without a language; if a fence was
    opened and never closed, all that follows it (the model ran out of tokens); the last closed
    block of any language; the text itself. Linear in the text.

    With `repair_truncated` what follows a fence that was never closed is cut to
    `longest_program`, and the first rule counts it as a closed block.
    """
    closed, unclosed = _blocks(completion)
    if unclosed is not None and repair_truncated:
        unclosed = longest_program(unclosed)
    if entry_point:
        defining = _definition(entry_point)
        whole = [*closed, _Block("", unclosed)] if unclosed and repair_truncated else closed
        for block in reversed(whole):
            if block.language in ("", *_PYTHON) and defining.search(block.text):
                return block.text
    for wanted in (_PYTHON, ("",)):
        matching = [block.text for block in closed if block.language in wanted]
        if matching:
            return matching[-1]
    if unclosed is not None:
        return unclosed
    return closed[-1].text if closed else completion


def longest_program(text: str) -> str:
    """Return the longest prefix of whole lines that Python can parse, or the text without one.

    No prefix that holds the line of a syntax error can be parsed, so that each attempt ends before
    the error of the last one. There are at most 32 attempts, none for more than 16,384 characters:
    the time is linear in the text.
    """
    lines = text.split("\n")
    if len(text) > _LONGEST:
        return text
    for _ in range(_MOST_ATTEMPTS):
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            break
        try:
            ast.parse("\n".join(lines), filename=_FILE)
        except SyntaxError as error:
            del lines[min((error.lineno or 1) - 1, len(lines) - 1) :]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            return "\n".join(lines) + "\n"
    return text


@dataclasses.dataclass(frozen=True)
class _Block:
    language: str
    text: str


def _definition(entry_point: str) -> re.Pattern[str]:
    """Return the pattern of a line that defines the name, or the class of a method's name."""
    name = re.escape(entry_point.partition(".")[0].removesuffix("()"))
    return re.compile(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class _Fence:
    indent: str
    mark: str
    length: int
    language: str

    def closes(self, opened: _Fence) -> bool:
        return self.mark == opened.mark and self.length >= opened.length and not self.language


def _blocks(text: str) -> tuple[list[_Block], str | None]:
    """Return each closed block, and the content of one left open."""
    closed: list[_Block] = []
    opened: _Fence | None = None
    content: list[str] = []
    *lines, last = text.split("\n")  # nothing else ends a line, as splitlines would have it
    for line in [*(line + "\n" for line in lines), last]:
        fence = _fence(line)
        if opened is None:
            opened, content = fence, []
        elif fence is not None and fence.closes(opened):
            closed.append(_Block(opened.language.lower(), "".join(content)))
            opened = None
        else:
            content.append(line.removeprefix(opened.indent))
    return closed, "".join(content) if opened is not None else None


def _fence(line: str) -> _Fence | None:
    """Return the fence that a line is, if it is one: no backtick may follow it."""
    body = line.lstrip(" \t")
    mark = body[:1]
    if mark not in ("`", "~"):
        return None
    rest = body.lstrip(mark)
    length = len(body) - len(rest)
    if length < 3 or "`" in rest:
        return None
    language = _LANGUAGE.match(rest.lstrip(" \t"))
    return _Fence(line[: -len(body)], mark, length, language[0] if language else "")
