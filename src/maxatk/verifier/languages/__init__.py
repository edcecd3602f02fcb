"""The languages that programs may be written in: a file each, and a row of `LANGUAGES`."""

from __future__ import annotations

from maxatk.check import one_of
from maxatk.verifier.languages.c import C
from maxatk.verifier.languages.cpp import CPP
from maxatk.verifier.languages.language import Compiler, Language
from maxatk.verifier.languages.python import PYTHON_3

__all__ = ["LANGUAGES", "Compiler", "Language", "language_named", "language_of_mark"]

LANGUAGES: dict[str, Language] = {language.name: language for language in (PYTHON_3, CPP, C)}
"""Name -> language."""


def language_named(name: str, *, field: str = "language") -> Language:
    """Return the language of that name; raises InvalidValueError for an unknown one."""
    one_of(field, name, LANGUAGES)
    return LANGUAGES[name]


def language_of_mark(mark: str) -> Language | None:
    """Return the language that the mark of a fence names, None for another one or no mark."""
    return next((lang for lang in LANGUAGES.values() if lang.marks.fullmatch(mark)), None)
