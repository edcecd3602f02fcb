"""Why samples failed: the first failed test of a few samples of every problem, as a file of a run.

Of each there are no more than `MOST` characters of the input, of what was expected, of what came
and of the error.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluation.store import Store
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.verifier.encoded import MOST, cut

STORED = 3
"""Failing samples of a problem that are stored by default."""

_UNEXPLAINED = (Outcome.PASSED, Outcome.NOT_RUN, Outcome.INFRA_ERROR)


@dataclasses.dataclass(frozen=True)
class Failure:
    """The first failed test of one sample: a line of `failures.jsonl`.

    `test` is its place among the problem's, from 0. `given` is its input or call, `expected` the
    output, `got` the beginning of what came, where something did, and `error` the end of what the
    program or the check wrote to standard error. Each has 200 characters at most.
    """

    problem_id: str
    sample: int
    test: int
    outcome: str
    given: str = ""
    expected: str = ""
    got: str = ""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this failure, without the texts that are empty."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value != ""}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Failure:
        """Return the failure of a JSON object; raises DataError for another one."""
        try:
            return cls(**row)
        except TypeError as error:
            raise DataError(f"failure: {error}") from error


def failure_of(
    verdict: Verdict, test_at: Callable[[int], TestCase], *, problem_id: str, sample: int
) -> Failure | None:
    """Return why a sample failed; None where it passed, or the verifier itself failed.

    `test_at` gives the test at a place; it is asked for the one that failed first alone.
    """
    if not verdict.scorable:
        return None
    for place, result in enumerate(verdict.tests):
        if result.outcome not in _UNEXPLAINED:
            test = test_at(place)
            return Failure(
                problem_id,
                sample,
                place,
                str(result.outcome).replace("_", " "),
                cut(_given(test)),
                cut(_plain(test.output or "")),
                result.got,
                _end(_plain(result.stderr).strip()),
            )
    return None


class FailureStore(Store[Failure]):
    """The failures of a run, at most `most` samples of a problem; opened and raising as `Store`."""

    def __init__(self, path: str | Path, most: int) -> None:
        super().__init__(path, Failure)
        self._most = most
        self._held = Counter(problem_id for problem_id, _ in self.records)

    def add(self, found: Iterable[Failure | None]) -> None:
        """Append the failures of problems that have room, each sample once."""
        added = []
        for failure in found:
            if failure is None or (failure.problem_id, failure.sample) in self.records:
                continue
            if self._held[failure.problem_id] < self._most:
                self._held[failure.problem_id] += 1
                added.append(failure)
        if added:
            self.append(added)


def _given(test: TestCase) -> str:
    return _plain(test.input or test.call or "")


def _plain(text: str) -> str:
    # A lone surrogate cannot be written to a file.
    return text.encode("utf-8", "replace").decode("utf-8")


def _end(text: str) -> str:
    """Return the end of a text, where a traceback names its error."""
    return text if len(text) <= MOST else "…" + text[-MOST:]
