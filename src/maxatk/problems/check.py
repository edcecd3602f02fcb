"""Reference solutions through the verifier: which problems does their own solution not solve?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maxatk.errors import DataError, MissingFileError
from maxatk.jsonl import read_jsonl
from maxatk.problems.load import read_problems, solutions_file
from maxatk.records import Outcome, Sample, Verdict
from maxatk.verifier import Progress, Verifier, problem_job

_SHOWN = 300  # characters of a failed test's standard error


def check_solutions(
    path: Path, *, verifier: Verifier, progress: Progress
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Verify the reference solutions of a problems file; return counts, and a row a failure.

    A solution is verified as it stands: no code is extracted from it. One that the verifier itself
    failed on is "unverified". Raises MissingFileError without the files, DataError for a solution
    of a problem that is not there.
    """
    problems = read_problems(path)
    file = solutions_file(path)
    if not file.is_file():
        raise MissingFileError(
            f"{file}: no such file; `maxatk problems prepare` writes the reference solutions there"
        )
    programs: dict[str, str] = {}
    for sample in read_jsonl(file, Sample.from_json):
        if sample.problem_id not in problems:
            raise DataError(f"{file}: a solution of an unknown problem {sample.problem_id!r}")
        programs.setdefault(sample.problem_id, sample.completion)
    jobs = [problem_job(program, problems[name]) for name, program in programs.items()]
    verdicts = dict(zip(programs, verifier.verify_many(jobs, progress=progress), strict=True))
    verified = {name: verdict for name, verdict in verdicts.items() if verdict.scorable}
    failures = [
        _first_failure(name, verdict)
        for name, verdict in verified.items()
        if verdict.passed < verdict.total
    ]
    counts = {
        "passed": len(verified) - len(failures),
        "failed": len(failures),
        "unverified": len(verdicts) - len(verified),
        "without_solution": len(problems) - len(programs),
    }
    return counts, failures


def _first_failure(problem_id: str, verdict: Verdict) -> dict[str, Any]:
    """Return the row of the first test that failed; `verdict` has at least one."""
    outcomes = [test.outcome for test in verdict.tests]
    number = next(i for i, outcome in enumerate(outcomes) if outcome is not Outcome.PASSED)
    return {
        "problem_id": problem_id,
        "outcome": str(outcomes[number]),
        "passed": verdict.passed,
        "total": verdict.total,
        "test": number,
        "stderr": verdict.tests[number].stderr.strip()[-_SHOWN:],
    }
