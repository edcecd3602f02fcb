"""What a sample costs the process that writes an evaluation: bytes on disk, memory, seconds.

The samples are synthetic. Each size runs in a process of its own, whose peak of memory is reported.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from maxatk.evaluation.results import build_results
from maxatk.evaluation.store import Store
from maxatk.records import Sample, Score

SAMPLES_A_PROBLEM = 256
TEXT = "def solve(values):\n    return sorted(values)[-1]  # a line of a realistic program\n" * 8


def write(folder, problems):
    """Samples of 650 characters and their scores, as an evaluation stores them."""
    numbers = random.Random(0)
    with (
        (folder / "samples.jsonl").open("w") as samples,
        (folder / "scores.jsonl").open("w") as rows,
    ):
        for problem in range(problems):
            for index in range(SAMPLES_A_PROBLEM):
                name, passed = f"problem/{problem}", numbers.randrange(11)
                row = Sample(name, index, TEXT, 200, "stop", -80.5, 0.3).to_json()
                samples.write(json.dumps(row) + "\n")
                outcome = "passed" if passed == 10 else "wrong_answer"
                program = f"{numbers.getrandbits(64):016x}"
                rows.write(
                    json.dumps(
                        {
                            "problem_id": name,
                            "sample": index,
                            "reward": passed / 10,
                            "passed": passed,
                            "total": 10,
                            "outcome": outcome,
                            "seconds": 0.02,
                            "program": program,
                        }
                    )
                    + "\n"
                )


def measure(folder, problems):
    """Open both stores and compute the results; print seconds and MiB."""
    started = time.process_time()
    with (
        Store(folder / "samples.jsonl", Sample.from_json) as samples,
        Store(folder / "scores.jsonl", Score.from_json) as scores,
    ):
        opened = time.process_time() - started
        names = [f"problem/{problem}" for problem in range(problems)]
        records = samples.records.values(), scores.records.values()
        build_results(names, *records, manifest={}, ks=[1, 16, 256])
    total = time.process_time() - started
    print(opened, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    print("samples | bytes a sample | open, s | results, s | peak, MiB | bytes of memory a sample")
    for problems in (40, 400, 4_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, problems)
            size = sum(path.stat().st_size for path in folder.iterdir())
            command = [sys.executable, __file__, name, str(problems)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        opened, total, peak = map(float, done.stdout.split())
        count = problems * SAMPLES_A_PROBLEM
        each = f"{size / count:.0f} | {opened:.1f} | {total - opened:.1f} | {peak:.0f}"
        print(f"{count:,} | {each} | {peak * 2**20 / count:.0f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
