"""Reference solutions through the verifier: which problems do their own solutions not solve?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, MissingFileError, counted
from maxatk.problems.benchmarks.base import Checker
from maxatk.problems.checkers import refuse_strangers, with_checker
from maxatk.problems.load import read_problems, read_solutions, solutions_file
from maxatk.records import Outcome, Problem, Verdict
from maxatk.verifier import Progress, Verifier, is_plain_call, problem_job

_SHOWN = 300  # characters of a failed test's standard error


def checked_problems(path: Path, checkers: Mapping[str, Checker]) -> dict[str, Problem]:
    """Return the problems of a file by id, with the checkers of their ids.

    Raises DataError for a checker of a problem that is not there.
    """
    problems = read_problems(path)
    refuse_strangers(checkers, set(problems), source="checkers")
    return {problem_id: with_checker(p, checkers) for problem_id, p in problems.items()}


def replaceable_calls(problems: Iterable[Problem]) -> str:
    """Return a remark on calls in which a program could replace what judges it, "" without any."""
    calls = {
        problem.id: test.call
        for problem in problems
        for test in problem.tests
        if test.call is not None and not is_plain_call(test.call)
    }
    if not calls:
        return ""
    problem_id, call = next(iter(calls.items()))
    return (
        f"{counted(len(calls))} with a test whose `call` does more than call, such as "
        f"{call!r:.80} of {problem_id!r}: all of it is evaluated inside the program, which can "
        "replace abs, sorted or == and pass with wrong values. Write the call alone, as f(1), with "
        "the value that it returns and a `tolerance` for floats, or a `check`, which is "
        "evaluated outside"
    )


def check_solutions(
    path: Path,
    problems: Mapping[str, Problem],
    *,
    verifier: Verifier,
    progress: Progress,
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Verify the first reference solution of every problem with tests.

    Returns counts, and a row a failure. `path` is the file of the problems. A solution is verified
    as it stands: no code is extracted from it. One that the verifier itself failed on is
    "unverified". Raises MissingFileError without the solutions, DataError for a solution of a
    problem that is not there.
    """
    solutions = {name: programs[0] for name, programs in _solutions(path, problems).items()}
    jobs = [problem_job(program, problems[name]) for name, program in solutions.items()]
    verdicts = dict(zip(solutions, verifier.verify_many(jobs, progress=progress), strict=True))
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
        "without_solution": _with_tests(problems) - len(solutions),
    }
    return counts, failures


def ambiguous_problems(
    path: Path,
    problems: Mapping[str, Problem],
    *,
    verifier: Verifier,
    progress: Progress,
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Find problems with tests where two programs that are known to solve them print other things.

    Both are right, so that the problem has several right answers, and needs a checker. Returns
    counts, and a row for each such problem with the first test that shows it. A problem with fewer
    than two solutions is "unknown". Raises as `check_solutions`.
    """
    solutions = _solutions(path, problems)
    several = {name: programs for name, programs in solutions.items() if len(programs) > 1}
    owners = [name for name, programs in several.items() for _ in programs]
    jobs = [
        problem_job(program, problems[name])
        for name, programs in several.items()
        for program in programs
    ]
    verdicts: dict[str, list[Verdict]] = {}
    for name, verdict in zip(owners, verifier.verify_many(jobs, progress=progress), strict=True):
        verdicts.setdefault(name, []).append(verdict)
    rows = []
    for name, verdicts_of_problem in verdicts.items():
        row = _first_difference(name, verdicts_of_problem)
        if row is not None:
            rows.append(row)
    counts = {
        "ambiguous": len(rows),
        "alike": len(several) - len(rows),
        "unknown": _with_tests(problems) - len(several),
    }
    return counts, rows


def _with_tests(problems: Mapping[str, Problem]) -> int:
    return sum(bool(problem.tests) for problem in problems.values())


def _solutions(path: Path, problems: Mapping[str, Problem]) -> dict[str, list[str]]:
    """Return the reference solutions of problems with tests, without repetitions.

    They come in the order of the file. Those of other problems are no programs.
    """
    file = solutions_file(path)
    if not file.is_file():
        raise MissingFileError(
            f"{file}: no such file; it holds the reference solutions, which `maxatk problems "
            "prepare` writes for a benchmark and you for problems of your own, a line each: "
            '{"problem_id": "a", "completion": "print(1)"}'
        )
    solutions: dict[str, list[str]] = {}
    for sample in read_solutions(file):
        if sample.problem_id not in problems:
            raise DataError(f"{file}: a solution of an unknown problem {sample.problem_id!r}")
        if not problems[sample.problem_id].tests:
            continue
        programs = solutions.setdefault(sample.problem_id, [])
        if sample.completion not in programs:
            programs.append(sample.completion)
    return solutions


def _first_difference(problem_id: str, verdicts: list[Verdict]) -> dict[str, Any] | None:
    """Return the row of the first test on which some solutions pass and others print otherwise."""
    for number, results in enumerate(zip(*(verdict.tests for verdict in verdicts), strict=True)):
        outcomes = [result.outcome for result in results]
        passed = outcomes.count(Outcome.PASSED)
        wrong = outcomes.count(Outcome.WRONG_ANSWER)
        if passed and wrong:
            return {
                "problem_id": problem_id,
                "test": number,
                "solutions": len(verdicts),
                "passed": passed,
                "wrong_answer": wrong,
            }
    return None


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
