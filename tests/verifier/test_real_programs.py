"""Real problems and the programs that people wrote for them; skipped where the data is not here."""

from itertools import islice

import pytest

from maxatk.problems import load_benchmark
from maxatk.verifier import Job, problem_job
from verifier.mutants import mutants

FILES = {
    "mbpp": ("mbpp/mbpp.jsonl", 20),
    "code_contests": ("codecontests/code_contests_verified.jsonl", 11),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_reference_solutions_pass_and_mutants_fail(verifier, real_data, name):
    file, step = FILES[name]
    solved = load_benchmark(name, file=real_data(file)).solved[::step]
    jobs = [problem_job(s.solution, s.problem) for s in solved]
    jobs = [Job(j.program, j.tests[:5], j.compare, time_limit=90.0) for j in jobs]
    rewards = [verdict.reward for verdict in verifier.verify_many(jobs)]
    assert sum(reward != 1.0 for reward in rewards) <= len(jobs) // 50

    # A number may not matter (a recursion limit, a size with room to spare), but one of the first
    # three of a program nearly always does.
    killed = {}
    variants = [(i, m) for i, job in enumerate(jobs) for m in islice(mutants(job.program), 3)]
    mutated = [Job(m, jobs[i].tests, jobs[i].compare, time_limit=2.0) for i, m in variants]
    for (i, _), verdict in zip(variants, verifier.verify_many(mutated), strict=True):
        assert verdict.scorable
        killed[i] = killed.get(i, False) or verdict.reward != 1.0
    print(name, len(jobs), len(variants), len(killed), sum(killed.values()))
    assert sum(killed.values()) > 0.8 * len(killed)
