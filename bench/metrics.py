"""Time and memory of the statistics of a large run, from its files: 1,055 problems x 256 samples.

Usage: python bench/metrics.py [FOLDER]. The files are made once, in FOLDER if it is given.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBLEMS, SAMPLES = 1055, 256
MOST_SECONDS, MOST_BYTES = 5.0, 1 << 30


def make_files(folder):
    """Write samples.jsonl (about 600 characters a completion) and scores.jsonl."""
    draw = random.Random(0)
    lines = [f"    value_{i} = solve(value_{i - 1}, {i * 7})\n" for i in range(1, 200)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "samples.jsonl").open("w") as samples, (folder / "scores.jsonl").open("w") as sc:
        for problem in range(PROBLEMS):
            for sample in range(SAMPLES):
                start = draw.randrange(180)
                row = {"problem_id": f"problem-{problem}", "sample": sample}
                text = "def main():\n" + "".join(lines[start : start + 16])
                written = {"tokens": 180, "finish_reason": "stop", "logprob": -91.5}
                entropy = {"entropy": round(draw.random(), 4)}
                print(json.dumps({**row, "completion": text, **written, **entropy}), file=samples)
                passed = draw.choice([0, 0, 0, 3, 7, 10])
                verdict = {"reward": passed / 10, "passed": passed, "total": 10}
                outcome = {"outcome": "passed" if passed == 10 else "wrong_answer"}
                key = {"program": f"{draw.randrange(1 << 40):016x}"}
                print(json.dumps({**row, **verdict, **outcome, "seconds": 0.12, **key}), file=sc)


def measure(folder):
    """Print the seconds, of the clock and of the processor, and the peak memory of one summary."""
    started = time.perf_counter()
    from maxatk.evaluate.folder import results_of_folder

    results = results_of_folder(folder)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert results["counts"]["samples"] == PROBLEMS * SAMPLES
    print(json.dumps({"seconds": seconds, "cpu": time.process_time(), "peak_bytes": peak}))


def main(folder):
    if not (folder / "scores.jsonl").is_file():
        make_files(folder)
    size = sum((folder / name).stat().st_size for name in ("samples.jsonl", "scores.jsonl"))
    print(f"{PROBLEMS} problems x {SAMPLES} samples, files of {size / 1e6:.0f} MB")
    done = subprocess.run(
        [sys.executable, __file__, str(folder), "measure"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(f"{found['seconds']:.2f} s (aim: {MOST_SECONDS:.0f} s), CPU {found['cpu']:.2f} s")
    print(f"{found['peak_bytes'] / 1e6:.0f} MB (aim: {MOST_BYTES / 1e6:.0f} MB)")


if __name__ == "__main__":
    if sys.argv[2:] == ["measure"]:
        measure(Path(sys.argv[1]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
