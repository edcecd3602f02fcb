"""Take the program out of what a language model wrote."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from maxatk.errors import unknown_name
from maxatk.verifier.fences import read_fences
from maxatk.verifier.languages import language_named, language_of_mark
from maxatk.verifier.languages.language import Language
from maxatk.verifier.reasoning import read_answer

UnfinishedThought: TypeAlias = Literal["wrong", "read"]
"""What becomes of a completion whose reasoning never ends."""

UNFINISHED_THOUGHT = "<a thought that never ends>"
"""What stands for the program of such a completion; its outcome is `unfinished_thought`."""

OTHER_LANGUAGE = "<a program in another language>"
"""What stands, with its name behind it, for a program whose fence names a language that the problem
does not take; its outcome is `other_language`."""

# A fence that names a language.
_MARK = re.compile(r"^[ \t]*(?:```|~~~)[ \t{.]*[A-Za-z]", re.MULTILINE)


class Extracted(NamedTuple):
    """The program in a completion, and the special token that was cut off, "" without one."""

    program: str
    special_token: str = ""


def extract_code(
    completion: str,
    entry_point: str | None = None,
    *,
    language: str = "python",
    repair_truncated: bool = False,
    unfinished_thought: UnfinishedThought = "wrong",
) -> str:
    """Return the program in a completion: the last complete fenced block, Python ones first.

    What counts is the answer, without reasoning and special tokens (see `read_answer`), and of it
    what <answer>, <solution>, <code> or [PYTHON] holds. The rule, in order: the last closed block
    that defines `entry_point` and not its signature alone, where that is known, a `def` or `class`
    before an assignment; without an entry point the last closed program that reads the input; the
    last closed block marked as Python; the last closed program without a language; if a fence was
    opened and never closed, all that follows it; a program before the first block; the last closed
    block of any language; the text itself. A block that defines the entry point, or that reads the
    input, gets the blocks beside it that define what it lacks. A block that repeats lines of an
    earlier program to explain it does not count, nor one that lacks what the earlier one defines.
    With `repair_truncated` what follows a fence that was never closed is cut to `longest_program`,
    and the first rule counts it as a closed block. A completion whose reasoning never ends has the
    program `UNFINISHED_THOUGHT`, unless `unfinished_thought` is "read".

    Of a `language` that is compiled the last block with a `main` is the program. Where a fence says
    that the program is in another language, `OTHER_LANGUAGE` stands for it, and that language's
    name. Raises InvalidValueError for an unknown `language`.
    """
    return extract(
        completion,
        entry_point,
        language_named(language),
        repair_truncated=repair_truncated,
        unfinished_thought=unfinished_thought,
    ).program


def extract(
    completion: str,
    entry_point: str | None,
    language: Language,
    *,
    repair_truncated: bool,
    unfinished_thought: UnfinishedThought,
) -> Extracted:
    """Return the program as `extract_code` does, with the special token that was cut off."""
    answer = read_answer(completion)
    if not answer.finished and unfinished_thought == "wrong":
        return Extracted(UNFINISHED_THOUGHT)
    program = language.program_in(answer.text, entry_point, repair_truncated=repair_truncated)
    if _MARK.search(answer.text):
        program = _other_language(answer.text, program, language) or program
    return Extracted(program, answer.special_token)


def _other_language(text: str, program: str, language: Language) -> str | None:
    """Return what stands for a program that is a block of another language, None for its own."""
    for block in read_fences(text).closed:
        marked = language_of_mark(block.language)
        if marked is not None and marked is not language and block.text.strip() == program.strip():
            return f"{OTHER_LANGUAGE}{marked.name}"
    return None


def check_unfinished_thought(value: str) -> None:
    """Raise InvalidValueError for a value that is not one of `UnfinishedThought`."""
    if value not in ("wrong", "read"):
        raise unknown_name("unfinished_thought", str(value), ("wrong", "read"))
