"""Verify the reference solutions of problems, and the same with one integer changed.

    python bench/real_programs.py                     # the problems of the built-in model
    python bench/real_programs.py mbpp rows.jsonl     # those of a benchmark

Prints the share of solutions that pass, the outcomes of those that do not, and the share of changed
programs that fail. An integer need not matter, so the last line also counts the problems of which a
change was noticed.
"""

import argparse
import collections
import random
import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "verifier"))
from mutants import mutants

from maxatk.mini import Noise, generate_problems
from maxatk.problems import load_benchmark
from maxatk.problems.benchmarks.base import SolvedProblem
from maxatk.verifier import Job, Verifier, problem_job

BUILT_IN = 200  # problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benchmark", nargs="?")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--time-limit", type=float, default=20.0, help="CPU seconds a test")
    parser.add_argument("--mutants", type=int, default=3, help="changed programs a solution")
    options = parser.parse_args()
    solved = _solved(options.benchmark, options.file)
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
    share = len(right) / len(jobs)
    print(
        f"{len(right)} of {len(jobs)} solutions pass ({share:.1%}); {tests} verdicts, "
        f"{tests / seconds:.0f} a second"
    )
    for (problem, outcome), count in _failures(solved, verdicts).items():
        print(f"  {problem}: {outcome} in {count} tests")
    noticed = collections.defaultdict(list)
    for (number, _), verdict in zip(variants, changed, strict=True):
        noticed[number].append(verdict.reward != 1.0)
    failed = sum(map(sum, noticed.values()))
    print(
        f"{failed} of {len(variants)} changed programs fail ({failed / len(variants):.1%}); in "
        f"{sum(map(any, noticed.values()))} of {len(noticed)} problems at least one does"
    )


def _solved(benchmark, file):
    if benchmark is not None:
        return load_benchmark(benchmark, file=file).solved
    generator = random.Random(0)
    exact = Noise(0.0, 0.0, 0.0, 0.0)
    return [
        SolvedProblem(made.problem, made.noisy(generator, exact))
        for made in generate_problems(BUILT_IN, seed=0)
    ]


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
