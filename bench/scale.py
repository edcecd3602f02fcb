"""What a sample costs the process that writes an evaluation, and one that reads its files.

Bytes on disk, memory, seconds. The samples are synthetic. Each size runs in processes of its own,
whose peak of memory is reported: one that holds samples and scores, as the writer does, and two
that compute the results of the files column by column, with the samples and of the scores alone.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.load import results_of_folder
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
                name = f"problem/{problem}"
                passed = numbers.randrange(11)
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
        Store(folder / "samples.jsonl", Sample) as samples,
        Store(folder / "scores.jsonl", Score) as scores,
    ):
        opened = time.process_time() - started
        names = [f"problem/{problem}" for problem in range(problems)]
        records = samples.records.values(), scores.records.values()
        build_results(names, *records, manifest={})
    total = time.process_time() - started
    print(opened, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def read(folder):
    """Compute the results of the files; print seconds and MiB."""
    started = time.process_time()
    results_of_folder(folder)
    total = time.process_time() - started
    print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def in_a_process(*arguments):
    """The numbers that this script prints with arguments."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return map(float, done.stdout.split())


def main():
    print("samples | bytes a sample | open, s | results, s | peak, MiB | ", end="")
    print("from files, s | peak, MiB | from scores, s | peak, MiB")
    for problems in (40, 400, 4_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, problems)
            size = sum(path.stat().st_size for path in folder.iterdir())
            opened, total, peak = in_a_process("hold", folder, problems)
            together = in_a_process("read", folder)
            (folder / "samples.jsonl").unlink()
            alone = in_a_process("read", folder)
        count = problems * SAMPLES_A_PROBLEM
        results = f"{size / count:.0f} | {opened:.1f} | {total - opened:.1f} | {peak:.0f}"
        files = " | ".join(f"{seconds:.1f} | {most:.0f}" for seconds, most in (together, alone))
        print(f"{count:,} | {results} | {files}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        measure(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["read"]:
        read(Path(sys.argv[2]))
    else:
        main()
