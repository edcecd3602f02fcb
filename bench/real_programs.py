"""Verify the reference solutions of a benchmark, and the same with one integer changed.

    python bench/real_programs.py mbpp rows.jsonl

Prints how many solutions pass, the outcomes of those that do not, and how many changed programs
fail. An integer need not matter, so the last table counts programs of which no change was noticed.
"""

import argparse
import collections
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "verifier"))
from mutants import mutants

from maxatk.problems import load_benchmark
from maxatk.verifier import Job, Verifier, problem_job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benchmark")
    parser.add_argument("file", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0, help="CPU seconds a test")
    parser.add_argument("--mutants", type=int, default=3, help="changed programs a solution")
    options = parser.parse_args()
    solved = load_benchmark(options.benchmark, file=options.file).solved
    jobs = [problem_job(s.solution, s.problem) for s in solved if s.solution is not None]
    jobs = [Job(j.program, j.tests, j.compare, time_limit=options.time_limit) for j in jobs]
    with Verifier() as verifier:
        start = time.monotonic()
        verdicts = verifier.verify_many(jobs)
        seconds = time.monotonic() - start
        right = [job for job, verdict in zip(jobs, verdicts, strict=True) if verdict.reward == 1.0]
        variants = [
            (number, Job(changed, job.tests, job.compare, time_limit=2.0))
            for number, job in enumerate(right)
            for changed in islice(mutants(job.program), options.mutants)
        ]
        changed = verifier.verify_many([job for _, job in variants])
    tests = sum(len(job.tests) for job in jobs)
    print(f"{len(right)} of {len(jobs)} solutions pass; {tests} verdicts in {seconds:.0f} s")
    for (problem, outcome), count in _failures(solved, verdicts).items():
        print(f"  {problem}: {outcome} in {count} tests")
    noticed = collections.defaultdict(list)
    for (number, _), verdict in zip(variants, changed, strict=True):
        noticed[number].append(verdict.reward != 1.0)
    print(
        f"{sum(map(sum, noticed.values()))} of {len(variants)} changed programs fail; in "
        f"{sum(map(any, noticed.values()))} of {len(noticed)} problems at least one does"
    )


def _failures(solved, verdicts):
    ids = [s.problem.id for s in solved if s.solution is not None]
    return collections.Counter(
        (problem, test.outcome)
        for problem, verdict in zip(ids, verdicts, strict=True)
        if verdict.reward != 1.0
        for test in verdict.tests
        if test.outcome != "passed"
    )


if __name__ == "__main__":
    main()
