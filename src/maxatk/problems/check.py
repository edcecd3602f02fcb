"""Reference solutions through the verifier: which problems does their own solution not solve?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, MissingFileError
from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.problems import problems_by_id, solutions_file
from maxatk.records import Outcome, Problem, Sample, Verdict
from maxatk.verifier import Progress, Verifier, problem_job

_SHOWN = 300  # characters of a failed test's standard error


@dataclasses.dataclass(frozen=True)
class Checked:
    """What a check found.

    `passed` counts solutions that pass, `failures` are rows about the others with the first test
    that fails, `unverified` the ids of those where the verifier itself failed, `unsolved` the ids
    of problems without a solution.
    """

    problems: Path
    passed: int
    failures: tuple[dict[str, Any], ...]
    unverified: tuple[str, ...]
    unsolved: tuple[str, ...]

    def write_passing(self, out: Path) -> int:
        """Write the problems whose own solution does not fail and return how many there are."""
        failed = {failure["problem_id"] for failure in self.failures}
        kept = [p for p in read_jsonl(self.problems, Problem.from_json) if p.id not in failed]
        write_jsonl(out, (problem.to_json() for problem in kept))
        return len(kept)


def check_solutions(
    path: Path,
    solutions: Path | None,
    *,
    verifier: Verifier,
    progress: Progress,
) -> Checked:
    """Verify the reference solution of every problem that has one.

    A solution is verified as it stands: no code is extracted from it. Raises MissingFileError
    without the files, DataError for a solution of a problem that is not there.
    """
    by_id = problems_by_id(read_jsonl(path, Problem.from_json), source=str(path))
    programs = _programs(solutions or solutions_file(path), by_id)
    jobs = [problem_job(program, by_id[name]) for name, program in programs.items()]
    verdicts = dict(zip(programs, verifier.verify_many(jobs, progress=progress), strict=True))
    verified = {name: verdict for name, verdict in verdicts.items() if verdict.scorable}
    failures = tuple(_failure(n, v) for n, v in verified.items() if v.passed < v.total)
    return Checked(
        path,
        passed=len(verified) - len(failures),
        failures=failures,
        unverified=tuple(name for name in verdicts if name not in verified),
        unsolved=tuple(name for name in by_id if name not in programs),
    )


def _programs(path: Path, by_id: dict[str, Problem]) -> dict[str, str]:
    if not path.is_file():
        raise MissingFileError(
            f"{path}: no such file; `maxatk problems prepare` writes the reference solutions "
            "there, or name them with --solutions"
        )
    programs: dict[str, str] = {}
    for sample in read_jsonl(path, Sample.from_json):
        if sample.problem_id not in by_id:
            raise DataError(f"{path}: a solution of an unknown problem {sample.problem_id!r}")
        programs.setdefault(sample.problem_id, sample.completion)
    return programs


def _failure(problem_id: str, verdict: Verdict) -> dict[str, Any]:
    failed = ((n, t) for n, t in enumerate(verdict.tests) if t.outcome is not Outcome.PASSED)
    number, test = next(failed)
    return {
        "problem_id": problem_id,
        "outcome": str(test.outcome),
        "passed": verdict.passed,
        "total": verdict.total,
        "test": number,
        "stderr": test.stderr.strip()[-_SHOWN:],
    }
