"""What a language is to the verifier: one `Language`, made by one file of this folder."""

from __future__ import annotations

import dataclasses
import re
from typing import Protocol


class ProgramIn(Protocol):
    """Finds the program in an answer, which may be all of it."""

    def __call__(self, answer: str, entry_point: str | None, *, repair_truncated: bool) -> str:
        """Return the program; `entry_point` is what it defines, where that is known."""


class NormalForm(Protocol):
    """Turns a program into a text that is equal for programs that are the same."""

    def __call__(self, program: str) -> str:
        """Return the text."""


@dataclasses.dataclass(frozen=True)
class Compiler:
    """How a language is built: as a shared object with a `main`.

    `commands` are the compilers that will do, the best first. `flags` are those that settings may
    replace; `fixed` ones stand before them, `libraries` behind the source. `source_name` is the
    file that messages name. `runtime` is a shared library that objects need, `header` one that is
    compiled once for all programs, "" without. `no_memory` is what a program says on its standard
    error when it ends for want of memory. A source that `replaces` matches brings functions that
    the runtime uses, and is linked with one of its own by the `static_flags`.
    """

    commands: tuple[str, ...]
    source_name: str
    flags: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    runtime: str = ""
    header: str = ""
    no_memory: bytes = b""
    replaces: re.Pattern[str] | None = None
    static_flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Language:
    """A language that programs may be written in.

    `title` and `fence` are its names in prompts and on the block that they ask for, `marks` matches
    all that a fence may say. `seven` is a program that prints 7, by which `maxatk doctor` tries the
    language. `calls` says that tests may call functions of a program. Without a `compiler` the
    interpreter of the sandbox runs the source.
    """

    name: str
    title: str
    fence: str
    marks: re.Pattern[str]
    program_in: ProgramIn
    normal_form: NormalForm
    seven: str
    calls: bool = False
    compiler: Compiler | None = None


def text_form(program: str) -> str:
    """Return a program without blank lines and trailing spaces, behind the word `text`."""
    lines = (line.rstrip() for line in program.splitlines())
    return "text " + "\n".join(line for line in lines if line)
