"""Does a host that holds gigabytes make verdicts dearer? Two hosts take turns, one of them large.

Zygotes are started by exec and know nothing of the host's memory; this script shows it. Prints CPU
and wall milliseconds a verdict of both hosts, and the ratio of the medians.
"""

import argparse
import statistics
import subprocess
import sys
import time

from maxatk.records import TestCase
from maxatk.verifier import Verifier

PROGRAMS = 20
TESTS = 10
ROUNDS = 25
CASES = [TestCase(input=f"{i} {i + 1}\n", output=f"{2 * i + 1}\n") for i in range(TESTS)]


def host(gibibytes: float) -> None:
    """Hold memory, half of it in small objects, and verifier once for every line of stdin."""
    block = bytearray(int(gibibytes * (1 << 29)))
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])  # touched, so that it is really there
    small = [(i, str(i)) for i in range(int(gibibytes * (1 << 29) / 160))]
    with Verifier(workers=1) as verifier:
        print(len(block) + len(small), flush=True)
        for line in sys.stdin:
            source = f"a, b = map(int, input().split())\nprint(a + b)\n# {line.strip()}"
            jobs = [(f"{source} {i}", CASES) for i in range(PROGRAMS)]
            start = time.perf_counter()
            verdicts = verifier.verify_many(jobs)
            print(time.perf_counter() - start, flush=True)
            assert all(verdict.reward == 1.0 for verdict in verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=3.0, help="GiB that the large host holds")
    parser.add_argument("--hold", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold is not None:
        host(options.hold)
        return
    sizes = {"a small host": 0.0, f"a host with {options.gib:g} GiB": options.gib}
    hosts = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--hold", str(size)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name, size in sizes.items()
    }  # fmt: skip
    for process in hosts.values():
        process.stdout.readline()
    seconds = {name: [] for name in hosts}
    for number in range(ROUNDS):
        for name, process in hosts.items():
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            seconds[name].append(float(process.stdout.readline()))
    for name, process in hosts.items():
        process.stdin.close()
        process.wait()
        middle = statistics.median(seconds[name]) / (PROGRAMS * TESTS) * 1e3
        least = min(seconds[name]) / (PROGRAMS * TESTS) * 1e3
        print(f"{name:22} {middle:.3f} ms a verdict (median), {least:.3f} (least)")
    small, large = (statistics.median(times) for times in seconds.values())
    print(f"the large host is {large / small:.3f} times as slow")


if __name__ == "__main__":
    main()
