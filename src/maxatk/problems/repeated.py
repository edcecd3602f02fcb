"""Tests that repeat: dropped inside a problem, held once across problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from maxatk.records import Problem

_WORTH_SHARING = 32  # characters; the entry of a shorter text costs more than it saves


def without_duplicate_tests(problem: Problem) -> tuple[Problem, int]:
    """Return the problem with each of its tests once, in the order given, and how many went.

    A repeated test tells nothing new about a program, costs a run, and gives its outcome double
    weight in a reward that is the fraction of tests passed. Whether all tests pass stays the same.
    """
    once = tuple(dict.fromkeys(problem.tests))
    dropped = len(problem.tests) - len(once)
    return (dataclasses.replace(problem, tests=once) if dropped else problem), dropped


class TextPool:
    """Holds each text once, however many tests of however many problems repeat it."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def share(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON object of a problem with the texts of its tests taken from the pool."""
        tests = row.get("tests")
        if not isinstance(tests, list):
            return row
        return {**row, "tests": [self._shared(test) for test in tests]}

    def _shared(self, test: Any) -> Any:
        if not isinstance(test, dict):
            return test
        return {
            name: self._texts.setdefault(value, value)
            if isinstance(value, str) and len(value) >= _WORTH_SHARING
            else value
            for name, value in test.items()
        }
