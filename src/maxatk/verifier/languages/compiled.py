"""What languages with the syntax of C share: how their programs are found and compared."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from maxatk.verifier.fences import read_fences
from maxatk.verifier.languages.language import Compiler, Language
from maxatk.verifier.repeated_blocks import MOST_BLOCKS, Lines, last_whole

# `int main(`, `signed main(`, `auto main(`; at the beginning of a line or behind another statement.
# Without a type, as in old C, only where a body follows: a sentence may begin with `main()`.
_MAIN = re.compile(
    r"(?:^|[;}>\s])[A-Za-z_]\w*[ \t\n]+main[ \t\n]*\("
    r"|(?:^|[;}])[ \t]*main[ \t\n]*\([^(){};]{0,200}\)[^(){}]{0,200}\{",
    re.MULTILINE,
)
_TAG = re.compile(r"^[ \t]*<(answer|solution|code)>", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
# Text that stays as it is, or blanks and comments, which count as one blank. What never ends goes
# to the end: one look at it is enough.
_PARTS = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<blank>(?:[ \t\r\f\v]|//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))+)",
    re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_LONGEST = 1 << 18  # characters: what is longer is compared as text
# A shared object whose own names are its own, with a `main`, and nothing left undefined.
SHARED_OBJECT = (
    "-shared", "-fPIC", "-pipe", "-w", "-fno-semantic-interposition", "-Wl,-Bsymbolic",
    "-Wl,-z,defs", "-Wl,--require-defined=main",
)  # fmt: skip


def compiled_language(
    name: str, *, title: str, marks: str, seven: str, compiler: Compiler
) -> Language:
    """Return a language whose programs are built; `marks` is the pattern of its fences."""
    pattern = re.compile(marks, re.IGNORECASE)
    return Language(
        name=name,
        title=title,
        fence=name,
        marks=pattern,
        program_in=functools.partial(_program_in, marks=pattern),
        normal_form=_normal_form,
        seven=seven,
        compiler=compiler,
    )


def has_main(text: str) -> bool:
    """Say whether a text defines or declares a function `main`."""
    return _MAIN.search(text) is not None


def _program_in(
    answer: str,
    entry_point: str | None,  # noqa: ARG001  (a program is entered at `main`)
    *,
    repair_truncated: bool,  # noqa: ARG001  (a part of a program does not compile)
    marks: re.Pattern[str],
) -> str:
    """Return the program in an answer.

    The rule, in order: the last closed block of the language that has a `main`, then the last one
    without a language that has one; the last closed block of the language; what follows a fence
    that was never closed; what stands before the first fence and has a `main`; the last closed
    block; the whole text. A block that explains an earlier one does not count.
    """
    text = _tagged(answer)
    fences = read_fences(text)
    marked = [block.text for block in fences.closed if marks.fullmatch(block.language)]
    unmarked = [block.text for block in fences.closed if not block.language]
    for texts in (marked, unmarked):
        programs = list(filter(has_main, texts))
        if programs:
            return _last_program(programs)
    if marked:
        return marked[-1]
    before = _before_fence(text)
    if fences.unclosed is not None and (has_main(fences.unclosed) or before is None):
        return fences.unclosed
    if before is not None:
        return before
    return fences.closed[-1].text if fences.closed else answer


def _last_program(programs: Sequence[str]) -> str:
    """Return the last program that is no excerpt of an earlier one.

    An excerpt repeats lines of a program and stops before its end, or lacks its `#include`.
    """
    lines = {program: Lines(program, comment="//") for program in programs[-MOST_BLOCKS:]}

    def is_part(program: str, earlier: str) -> bool:
        excerpt = lines[program].in_other(lines[earlier])
        return excerpt is not None and (excerpt.goes_on or not _INCLUDE.search(program))

    return last_whole(programs, is_part)


def _tagged(text: str) -> str:
    """Return what the last of the tags `_TAG` holds, where that has a fence or a `main`."""
    openings = list(_TAG.finditer(text))
    if not openings:
        return text
    opening = openings[-1]
    closing = re.compile(rf"</{opening[1]}>", re.IGNORECASE).search(text, opening.end())
    inside = text[opening.end() : closing.start() if closing else None]
    if _FENCE.search(inside):
        return inside
    return f"~~~\n{inside.strip()}\n~~~\n" if has_main(inside) else text


def _before_fence(text: str) -> str | None:
    """Return what stands before the first fence, where the prompt may have opened a block."""
    fence = _FENCE.search(text)
    if fence is None:
        return None
    before = text[: fence.start()]
    return before if has_main(before) else None


def _normal_form(program: str) -> str:
    """Return a program without comments and with single blanks, its lines joined but directives."""
    if len(program) > _LONGEST:
        return "text " + program
    lines = _PARTS.sub(_shortened, program).split("\n")
    pieces = []
    for line in map(str.strip, lines):
        if line:
            pieces.append(f"\n{line}\n" if line.startswith("#") else f"{line} ")
    return "tokens " + "".join(pieces)


def _shortened(part: re.Match[str]) -> str:
    return " " if part["blank"] else part[0]
