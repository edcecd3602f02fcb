"""Why samples failed: the first failed test of a few samples of every problem."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.evaluation.store import Key, Store
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.settings import typed
from maxatk.verifier.encoded import MOST, cut
from maxatk.writing import without_lone_surrogates

_STORED = 3  # failing samples of a problem
_UNEXPLAINED = (Outcome.PASSED, Outcome.NOT_RUN, Outcome.INFRA_ERROR)


@dataclasses.dataclass(frozen=True)
class FailedTest:
    """The first failed test of one sample: a line of `failures.jsonl`.

    `test` is its place among the problem's, from 0. `input` is its input or call, `got` the
    beginning of what came, `error` the end of standard error: of `MOST` characters at most.
    """

    problem_id: str
    sample: int
    test: int
    outcome: str
    input: str = ""
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
    if not verdict.scorable:
        return None
    failed = [i for i, result in enumerate(verdict.tests) if result.outcome not in _UNEXPLAINED]
    if not failed:
        return None
    first = failed[0]
    result = verdict.tests[first]
    test = test_at(first)
    error = without_lone_surrogates(result.stderr).strip()
    return FailedTest(
        problem_id,
        sample,
        first,
        str(result.outcome).replace("_", " "),
        input=cut(without_lone_surrogates(test.input or test.call or "")),
        expected=cut(without_lone_surrogates(test.output or "")),
        got=result.got,
        # Its end is kept, where a traceback names the exception.
        error=error if len(error) <= MOST else "…" + error[-MOST:],
    )


class FailureStore(Store[FailedTest]):
    """The failures of a run, at most 3 samples of a problem; opened and raising as `Store`."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, FailedTest)
        self._held = self._count()

    def _count(self) -> Counter[str]:
        return Counter(problem_id for problem_id, _ in self.records)

    def keep(self, keys: Container[Key]) -> None:
        """Drop the failures of samples with other keys, and count those that are left."""
        super().keep(keys)
        self._held = self._count()

    def add(self, failures: Iterable[FailedTest | None]) -> None:
        """Append the failures of problems that have room; None is no failure."""
        new = []
        for failure in failures:
            if failure is not None and self._held[failure.problem_id] < _STORED:
                self._held[failure.problem_id] += 1
                new.append(failure)
        self.append(new)
