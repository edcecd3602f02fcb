"""Verify 100,000 tests of programs of every kind, and look for what was not given back.

Prints the outcomes, the rate, and before and after: processes and threads below this one, open
descriptors, resident memory of the host and of its largest process below, temporary files.
"""

import argparse
import collections
import os
import random
import sys
import threading
import time
from pathlib import Path

import psutil

from maxatk.records import TestCase
from maxatk.verifier import Verifier

BATCH = 400
TESTS = 5
CASES = tuple(TestCase(input=f"{i}\n", output=f"{i * i}\n") for i in range(TESTS))
# Source and how often it comes, in the proportion of a model that learns.
KINDS = {
    "n = int(input()); print(n * n)": 50,
    "n = int(input()); print(n + n)": 20,
    "1 / int(input())": 8,
    "def f(:": 6,
    "import sys; sys.exit(3)": 3,
    "x = bytearray(1 << 34)": 3,
    "import numpy as np; print(np.int64(input()) ** 2)": 3,
    "import threading; threading.Thread(target=print, args=(1,)).start()": 2,
    "open('work', 'w').write(input()); print(int(open('work').read()) ** 2)": 2,
    "import os; os.fork()": 1,
    "print('x' * (1 << 21))": 1,
    "while True: print('x' * 65536)": 0.3,
    "while True: pass": 0.5,
    "import os; os.kill(os.getppid(), 9)": 0.4,
}


def state() -> dict[str, float]:
    me = psutil.Process()
    below = me.children(recursive=True)
    return {
        "processes": len(below),
        "threads": threading.active_count(),
        "descriptors": me.num_fds(),
        "host MiB": round(me.memory_info().rss / (1 << 20), 1),
        "largest below MiB": round(max(p.memory_info().rss for p in below) / (1 << 20), 1),
        "files in /tmp": len(os.listdir("/tmp")),
        "files in /dev/shm": len(os.listdir("/dev/shm")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verdicts", type=int, nargs="?", default=100_000)
    total = parser.parse_args().verdicts
    generator = random.Random(0)
    outcomes: collections.Counter[str] = collections.Counter()
    with Verifier(time_limit=0.5, memory_limit=1 << 28, output_limit=1 << 22) as verifier:
        start = time.monotonic()
        number = 0
        before = {}
        while sum(outcomes.values()) < total:
            sources = generator.choices(list(KINDS), list(KINDS.values()), k=BATCH)
            jobs = [(f"{source}\n# {number + i}", CASES) for i, source in enumerate(sources)]
            number += BATCH
            for verdict in verifier.verify_many(jobs):
                outcomes.update(test.outcome.value for test in verdict.tests)
            before = before or state()  # after a first batch: both kinds of zygote have started
            print(f"\r{sum(outcomes.values())} verdicts", end="", file=sys.stderr)
        seconds = time.monotonic() - start
        after = state()
    print(file=sys.stderr)
    print(f"{sum(outcomes.values())} verdicts in {seconds:.0f} s: {dict(outcomes.most_common())}")
    for name, value in before.items():
        print(f"{name:18} {value:10} after the first batch, {after[name]:10} at the end")
    running = [p for p in psutil.Process().children(recursive=True) if p.is_running()]
    print(f"processes below after closing: {len(running)}")
    print(f"own folders left in /tmp: {len(list(Path('/tmp').glob('maxatk*')))}")


if __name__ == "__main__":
    main()
