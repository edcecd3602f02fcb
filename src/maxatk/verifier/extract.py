"""Take the program out of what a language model wrote."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Literal, NamedTuple, TypeAlias

from maxatk.check import one_of, require
from maxatk.verifier.fences import read_fences
from maxatk.verifier.languages import language_named, language_of_mark
from maxatk.verifier.languages.language import Language
from maxatk.verifier.reasoning import read_answer

_log = logging.getLogger(__name__)

UnfinishedThought: TypeAlias = Literal["wrong", "read"]
"""What becomes of a completion whose reasoning never ends."""

# A fence that names a language.
_MARK = re.compile(r"^[ \t]*(?:```|~~~|\'{3}|\"{3})[ \t{.]*[A-Za-z]", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a completion has no program that is run: its `kind` is the outcome of all tests.

    Its reasoning never ends, or its program is in a `language` that the problem does not take.
    Raises InvalidValueError for another kind and for an unknown language.
    """

    kind: Literal["unfinished_thought", "other_language"]
    language: str | None = None

    def __post_init__(self) -> None:
        kinds = ("unfinished_thought", "other_language")
        one_of("kind", self.kind, kinds)
        if self.kind == "other_language":
            language_named(str(self.language))


class Extracted(NamedTuple):
    """The program in a completion, and why it is not run, None where it is.

    `program` is "" where the reasoning never ends. `special_token` is the one that was cut off, ""
    without one.
    """

    program: str
    refused: Refusal | None = None
    special_token: str = ""


class ProgramReader:
    """Finds the programs in completions, and warns once where they hold special tokens.

    Raises InvalidValueError for an unknown value of `unfinished_thought`.
    """

    def __init__(self, *, repair_truncated: bool, unfinished_thought: UnfinishedThought) -> None:
        check_unfinished_thought(unfinished_thought)
        self._repair_truncated = repair_truncated
        self._unfinished_thought = unfinished_thought
        self._has_warned = False

    def program_of(
        self, completion: str, entry_point: str | None, language: str | None = None
    ) -> Extracted:
        """Return the program in a completion, as `extract_code` finds it with these settings.

        Where it is `refused`, a job that says so fails its tests without being run.
        """
        extracted = read_program(
            completion,
            entry_point,
            language,
            repair_truncated=self._repair_truncated,
            unfinished_thought=self._unfinished_thought,
        )
        if extracted.special_token and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "completions hold special tokens such as %r: what follows them is cut off. Decode "
                "with skip_special_tokens, or stop at the token",
                extracted.special_token,
            )
        return extracted


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
    before an assignment, and that before an import; without an entry point the last closed program
    that reads the input; the last closed block marked as Python; the last closed program without a
    language; if a fence was opened and never closed, all that follows it; a program before the
    first block; the last closed block of any language; a program between sentences, where there is
    no block; the text itself. A block that defines the entry point, or that reads the input, gets
    the blocks beside it that define what it lacks. A block that repeats lines of an earlier program
    to explain it does not count, nor one that lacks what the earlier one defines.
    With `repair_truncated` what follows a fence that was never closed is cut to `longest_program`,
    and the first rule counts it as a closed block. A completion whose reasoning never ends has the
    program "", unless `unfinished_thought` is "read".

    Of a `language` that is compiled the last block with a `main` is the program. Whether a program
    is refused, as one in another language is, can be read from `Verifier.program_of`. Raises
    InvalidValueError for an unknown `language`.
    """
    return read_program(
        completion,
        entry_point,
        language,
        repair_truncated=repair_truncated,
        unfinished_thought=unfinished_thought,
    ).program


def read_program(
    completion: str,
    entry_point: str | None = None,
    language: str | None = None,
    *,
    repair_truncated: bool = False,
    unfinished_thought: UnfinishedThought = "wrong",
) -> Extracted:
    """Return the program as `extract_code` does, and whether it is refused.

    Raises InvalidValueError for an unknown `language`; None is Python.
    """
    require(isinstance(completion, str), "completion", "a string", completion)
    require(isinstance(entry_point, str | None), "entry_point", "a string", entry_point)
    asked_for = language_named(language or "python")
    answer = read_answer(completion)
    if not answer.finished and unfinished_thought == "wrong":
        return Extracted("", Refusal("unfinished_thought"))
    refused = None
    program = asked_for.program_in(answer.text, entry_point, repair_truncated=repair_truncated)
    if _MARK.search(answer.text):
        refused = _other_language(answer.text, program, asked_for)
    return Extracted(program, refused, answer.special_token)


def _other_language(text: str, program: str, language: Language) -> Refusal | None:
    """Return the refusal of a program that is a block of another language, None for its own."""
    for block in read_fences(text).closed:
        marked = language_of_mark(block.language)
        if marked is not None and marked is not language and block.text.strip() == program.strip():
            return Refusal("other_language", marked.name)
    return None


def check_unfinished_thought(value: str) -> None:
    """Raise InvalidValueError for a value that is not one of `UnfinishedThought`."""
    one_of("unfinished_thought", value, ("wrong", "read"))
