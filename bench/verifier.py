"""What a verdict costs, against a new interpreter per test and against a bare fork.

Prints wall and CPU milliseconds per (program, test) of tiny programs, and the ratios. A fork that
runs the program, with nothing around it that guards or watches, is the least that a process a test
can cost. The variants take turns, so that a busy machine hurts them alike; the best round of each
counts. Programs of one test and of many say what a program costs and what each of its tests does.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import maxatk.verifier
from cpu import cpu_seconds
from maxatk.records import TestCase
from maxatk.verifier import Verifier

PROGRAMS = 20
TESTS = 10
MANY_TESTS = 100
ROUNDS = 7
SOURCE = "a, b = map(int, input().split())\nprint(a + b)\n"
CASES = [TestCase(input=f"{i} {i + 1}\n", output=f"{2 * i + 1}\n") for i in range(MANY_TESTS)]
COUNT = PROGRAMS * TESTS


def with_a_new_interpreter(folder: Path) -> None:
    for number in range(PROGRAMS):
        file = folder / f"{number}.py"
        file.write_text(SOURCE)
        for case in CASES[:TESTS]:
            command = [sys.executable, "-I", "-S", str(file)]
            run = subprocess.run(command, input=case.input, capture_output=True, text=True)
            assert run.stdout.split() == (case.output or "").split()


FORKS = f"""
import os, resource, sys, time
for name, path in {{parents}}:
    package = type(sys)(name)
    package.__path__ = [path]
    sys.modules[name] = package
import maxatk.verifier.inside.zygote
code = compile({SOURCE!r}, "<program>", "exec")
results = os.dup(1)
stdin = os.memfd_create("stdin")
os.write(stdin, b"1 2\\n")
os.dup2(stdin, 0)
os.dup2(os.memfd_create("printed"), 1)
start = time.perf_counter()
for _ in range({COUNT}):
    pid = os.fork()
    if pid == 0:
        if {{runs}}:
            os.lseek(0, 0, os.SEEK_SET)
            exec(code, {{{{"__name__": "__main__"}}}})
            sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
cpu = sum(usage.ru_utime + usage.ru_stime for usage in used)
os.write(results, f"{{{{time.perf_counter() - start}}}} {{{{cpu}}}}".encode())
"""


def with_forks(*, runs: bool) -> tuple[float, float]:
    """Return wall and CPU seconds of forks of an interpreter with a zygote's modules loaded."""
    verifier = Path(maxatk.verifier.__file__).parent
    parents = [("maxatk", str(verifier.parent)), ("maxatk.verifier", str(verifier))]
    command = [sys.executable, "-I", "-S", "-c", FORKS.format(parents=parents, runs=runs)]
    wall, cpu = subprocess.run(command, capture_output=True, check=True).stdout.split()
    return float(wall), float(cpu)


def with_the_verifier(verifier: Verifier, tests: int = TESTS) -> None:
    # A stamp makes the sources differ, because equal jobs are verified once.
    jobs = [(f"{SOURCE}# {time.monotonic_ns()} {i}", CASES[:tests]) for i in range(PROGRAMS)]
    assert all(verdict.reward == 1.0 for verdict in verifier.verify_many(jobs))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Verifier(workers=1) as one_worker,
        Verifier(workers=os.cpu_count() or 1) as all_cores,
    ):
        variants: dict[str, Callable[[], None]] = {
            "new interpreter per test": lambda: with_a_new_interpreter(Path(folder)),
            "verifier, one worker": lambda: with_the_verifier(one_worker),
            "verifier, all cores": lambda: with_the_verifier(all_cores),
        }
        wall = dict.fromkeys(variants, float("inf"))
        cpu = dict(wall)
        program_of = {1: float("inf"), MANY_TESTS: float("inf")}  # tests -> CPU ms of a program
        forks = {"bare fork": False, "fork that runs it": True}
        wall |= dict.fromkeys(forks, float("inf"))
        cpu |= dict.fromkeys(forks, float("inf"))
        for _ in range(ROUNDS):
            for name, runs in forks.items():
                forks_wall, forks_cpu = with_forks(runs=runs)
                wall[name] = min(wall[name], forks_wall / COUNT * 1e3)
                cpu[name] = min(cpu[name], forks_cpu / COUNT * 1e3)
            for name, run in variants.items():
                start = time.perf_counter()
                used = cpu_seconds()
                run()
                wall[name] = min(wall[name], (time.perf_counter() - start) / COUNT * 1e3)
                cpu[name] = min(cpu[name], (cpu_seconds() - used) / COUNT * 1e3)
            for tests, before in program_of.items():
                used = cpu_seconds()
                with_the_verifier(one_worker, tests)
                program_of[tests] = min(before, (cpu_seconds() - used) / PROGRAMS * 1e3)
    for name in wall:
        print(f"{name:26} {wall[name]:7.2f} ms wall {cpu[name]:7.2f} ms CPU per verdict")
    slow = "new interpreter per test"
    ours = "verifier, one worker"
    print(f"a new interpreter costs {cpu[slow] / cpu[ours]:.1f} times our CPU time")
    bare = cpu["bare fork"]
    alone = cpu["fork that runs it"]
    print(f"we cost {cpu[ours] / bare:.1f} times a bare fork with the same modules loaded")
    print(f"a fork that runs the program, unguarded, costs {alone / bare:.1f} times a bare one")
    of_test = (program_of[MANY_TESTS] - program_of[1]) / (MANY_TESTS - 1)
    of_program = program_of[1] - of_test
    print(
        f"of ours a test costs {of_test / bare:.1f} bare forks, a program {of_program / bare:.1f}"
    )
    cores = os.cpu_count() or 1
    print(f"{cores} workers are {wall[ours] / wall['verifier, all cores']:.2f} times one")


if __name__ == "__main__":
    main()
