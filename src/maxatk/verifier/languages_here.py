"""Which languages this machine can run: each is tried, from its compiler to a test that passes."""

from __future__ import annotations

import dataclasses

from maxatk.errors import SandboxError
from maxatk.records import TestCase
from maxatk.verifier.jobs import Job
from maxatk.verifier.languages import LANGUAGES, Language
from maxatk.verifier.toolchain import toolchain
from maxatk.verifier.verifier import Verifier

_SEVEN = TestCase(input="", output="7")


@dataclasses.dataclass(frozen=True)
class LanguageHere:
    """One language: whether a program in it passes a test here, by what, or why it does not."""

    name: str
    holds: bool
    compiler: str
    reason: str = ""


def languages_here() -> list[LanguageHere]:
    """Build and run a program in each language; raises SandboxError where none can be isolated."""
    with Verifier(workers=1) as verifier:
        return [_tried(language, verifier) for language in LANGUAGES.values()]


def _tried(language: Language, verifier: Verifier) -> LanguageHere:
    by = "the interpreter of the sandbox"
    try:
        if language.compiler is not None:
            tools = toolchain(language)
            by = f"{tools.path} ({tools.version})"
    except SandboxError as error:
        return LanguageHere(language.name, False, "", str(error))
    job = Job(language.seven, (_SEVEN,), language=language.name)
    (verdict,) = verifier.verify_many([job])
    holds = verdict.reward == 1.0
    return LanguageHere(language.name, holds, by, "" if holds else verdict.tests[0].stderr)
