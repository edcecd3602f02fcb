"""Why samples failed: the first failed test of a few samples of every problem."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.evaluation.store import Store, key_of
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.settings import typed
from maxatk.verifier.encoded import MOST, cut

_STORED = 3  # failing samples of a problem
_UNEXPLAINED = (Outcome.PASSED, Outcome.NOT_RUN, Outcome.INFRA_ERROR)


@dataclasses.dataclass(frozen=True)
class FailedTest:
    """The first failed test of one sample: a line of `failures.jsonl`.

    `test` is its place among the problem's, from 0. `given` is its input or call, `got` the
    beginning of what came, `error` the end of standard error: of `MOST` characters at most.
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
    def from_json(cls, row: Mapping[str, Any]) -> FailedTest:
        """Return the failure of a JSON object."""
        return typed(row, cls, where="failure")


def failure_of(
    verdict: Verdict, test_at: Callable[[int], TestCase], *, problem_id: str, sample: int
) -> FailedTest | None:
    """Return why a sample failed, None where it passed or the verifier failed."""
    failed = (i for i, result in enumerate(verdict.tests) if result.outcome not in _UNEXPLAINED)
    place = next(failed, None)
    if place is None or not verdict.scorable:
        return None
    result, test = verdict.tests[place], test_at(place)
    error = _plain(result.stderr).strip()  # of which the end is shown, where a traceback names it
    return FailedTest(
        problem_id,
        sample,
        place,
        str(result.outcome).replace("_", " "),
        given=cut(_plain(test.input or test.call or "")),
        expected=cut(_plain(test.output or "")),
        got=result.got,
        error=error if len(error) <= MOST else "…" + error[-MOST:],
    )


class FailureStore(Store[FailedTest]):
    """The failures of a run, at most 3 samples of a problem; opened and raising as `Store`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, FailedTest)
        self._held = Counter(problem_id for problem_id, _ in self.records)

    def add(self, found: Iterable[FailedTest | None]) -> None:
        """Append the failures of problems that have room, each sample once."""
        added = []
        for failure in found:
            if failure is None or key_of(failure) in self.records:
                continue
            if self._held[failure.problem_id] < _STORED:
                self._held[failure.problem_id] += 1
                added.append(failure)
        self.append(added)


def _plain(text: str) -> str:
    # A lone surrogate cannot be written to a file.
    return text.encode("utf-8", "replace").decode("utf-8")
