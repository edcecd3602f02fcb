"""What a program in C++ costs: building it, and a test of it, beside a static binary and Python.

Prints CPU milliseconds of a build and of a test. Builds are those of programs that differ in a
comment alone. A static binary is run by fork and exec, with nothing around it that guards: the
least that a process a test can cost. The variants take turns; the best round of each counts.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cpu import cpu_seconds
from maxatk.records import TestCase
from maxatk.verifier import Job, Verifier

ROUNDS = 3
TESTS = 100
BUILDS = 3
SUM = "int main() { long long a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }\n"
STREAMS = f"#include <iostream>\n{SUM}"
ALL_HEADERS = f"#include <bits/stdc++.h>\nusing namespace std;\n{SUM}"
PYTHON = "a, b = map(int, input().split())\nprint(a + b)\n"
CASES = tuple(TestCase(input=f"{i} {i + 1}\n", output=f"{2 * i + 1}\n") for i in range(TESTS))


def test_of(verifier: Verifier, program: str, language: str | None) -> Callable[[], int]:
    """Return what runs one program on all cases; it is built, or compiled, before."""
    job = Job(program, CASES, language=language)
    assert verifier.verify_many([job])[0].reward == 1.0

    def run() -> int:
        assert verifier.verify_many([job])[0].reward == 1.0
        return TESTS

    return run


def build_of(verifier: Verifier, program: str) -> Callable[[], int]:
    """Return what builds programs that were not built before."""

    def run() -> int:
        before = verifier.build_seconds
        for _ in range(BUILDS):
            job = Job(f"{program}// {time.monotonic_ns()}\n", CASES[:1], language="cpp")
            assert verifier.verify_many([job])[0].reward == 1.0
        assert verifier.build_seconds > before
        return BUILDS

    return run


def compiler_alone(folder: Path, name: str, source: str) -> Callable[[], int]:
    file = folder / f"{name}.cpp"
    file.write_text(source)
    command = ["g++", "-O2", "-std=c++20", "-o", str(folder / name), str(file)]

    def run() -> int:
        subprocess.run(command, check=True)
        return 1

    return run


def static_binary(folder: Path) -> Callable[[], int]:
    file = folder / "static.cpp"
    file.write_text(STREAMS)
    binary = str(folder / "static")
    subprocess.run(["g++", "-O2", "-static", "-o", binary, str(file)], check=True)
    stdin = os.memfd_create("stdin")
    os.write(stdin, b"1 2\n")
    printed = os.memfd_create("printed")

    def run() -> int:
        for _ in range(TESTS):
            os.lseek(stdin, 0, os.SEEK_SET)
            pid = os.posix_spawn(
                binary,
                [binary],
                {},
                file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, printed, 1)],
            )
            os.waitpid(pid, 0)
        return TESTS

    return run


def main() -> None:
    if shutil.which("g++") is None:
        print("there is no g++ here")
        return
    with tempfile.TemporaryDirectory() as name, Verifier(workers=1) as verifier:
        folder = Path(name)
        variants = {
            "test in C++": test_of(verifier, STREAMS, "cpp"),
            "test in C++, all headers": test_of(verifier, ALL_HEADERS, "cpp"),
            "test in Python": test_of(verifier, PYTHON, None),
            "static binary, unguarded": static_binary(folder),
            "build, <iostream>": build_of(verifier, STREAMS),
            "build, <bits/stdc++.h>": build_of(verifier, ALL_HEADERS),
            "g++ alone, <iostream>": compiler_alone(folder, "streams", STREAMS),
            "g++ alone, <bits/stdc++.h>": compiler_alone(folder, "all", ALL_HEADERS),
        }
        cost = dict.fromkeys(variants, float("inf"))
        for _ in range(ROUNDS):
            for label, run in variants.items():
                before = cpu_seconds()
                count = run()
                cost[label] = min(cost[label], (cpu_seconds() - before) / count * 1e3)
    for label, milliseconds in cost.items():
        print(f"{label:28} {milliseconds:8.2f} ms CPU")
    test = cost["test in C++"]
    build = cost["build, <bits/stdc++.h>"]
    whole = build + 10 * cost["test in C++, all headers"]
    print(f"a test costs {test / cost['static binary, unguarded']:.1f} times a static binary")
    print(f"a test costs {test / cost['test in Python']:.1f} times one in Python")
    print(f"the header saves {1 - build / cost['g++ alone, <bits/stdc++.h>']:.0%} of a build")
    print(f"a program of 10 tests: {1e3 / whole:.1f} a second and core; {build / whole:.0%} builds")


if __name__ == "__main__":
    main()
