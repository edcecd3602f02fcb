"""Files of a large run, 1,055 problems x 256 samples: size, compression, and time to read them.

The time is compared with that of decoding every line and nothing else.

Usage: python bench/metrics.py [FOLDER]. The files are made once, in FOLDER if it is given. The
programs of a problem are one function of Python's standard library with other names and numbers.
"""

import ast
import gzip
import json
import keyword
import random
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
from itertools import islice
from pathlib import Path

PROBLEMS = 1055
SAMPLES = 256
MOST_SECONDS = 5.0
MOST_BYTES = 1 << 30
SHORTEST = 200  # characters of a program
LONGEST = 1200
FILES = ("samples.jsonl", "scores.jsonl")
WORD = re.compile(r"[a-z_]{3,}|\b\d+\b")
KEPT = {*keyword.kwlist, "self", "print"}


def functions():
    """Yield the source of functions of the standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(errors="replace")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                source = textwrap.dedent(ast.get_source_segment(text, node, padded=True))
                if SHORTEST <= len(source) <= LONGEST:
                    yield source


def variant(source, draw, names):
    """Return a program with some of its names and numbers changed, each everywhere alike."""
    changed = {}

    def other(match):
        word = match[0]
        if word in KEPT:
            return word
        if word not in changed:
            new = str(draw.randrange(100)) if word.isdigit() else draw.choice(names)
            changed[word] = new if draw.random() < 0.3 else word
        return changed[word]

    return WORD.sub(other, source)


def make_files(folder):
    """Write samples.jsonl and scores.jsonl."""
    draw = random.Random(0)
    sources = list(islice(functions(), PROBLEMS))
    assert len(sources) == PROBLEMS
    names = sorted({name for source in sources for name in WORD.findall(source)} - KEPT)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILES[0]).open("w") as samples, (folder / FILES[1]).open("w") as scores:
        for problem, source in enumerate(sources):
            for sample in range(SAMPLES):
                row = {"problem_id": f"problem-{problem}", "sample": sample}
                text = f"```python\n{variant(source, draw, names)}\n```"
                written = {"tokens": len(text) // 3, "finish_reason": "stop"}
                sums = {
                    "logprob": round(-90 * draw.random(), 4),
                    "entropy": round(draw.random(), 4),
                }
                print(json.dumps({**row, "completion": text, **written, **sums}), file=samples)
                passed = draw.choice([0, 0, 0, 3, 7, 10])
                verdict = {"reward": passed / 10, "passed": passed, "total": 10}
                outcome = {"outcome": "passed" if passed == 10 else "wrong_answer"}
                cost = {"seconds": round(draw.random(), 6)}
                key = {"program": f"{draw.randrange(1 << 64):016x}"}
                print(json.dumps({**row, **verdict, **outcome, **cost, **key}), file=scores)


def measure(folder):
    """Print the seconds, of the clock and of the processor, and the peak memory of one summary."""
    started = time.perf_counter()
    from maxatk.evaluation.load import results_of_folder

    results = results_of_folder(folder)
    seconds = time.perf_counter() - started
    cpu = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert results.counts.samples == PROBLEMS * SAMPLES
    before = time.process_time()
    for name in FILES:
        with (folder / name).open() as lines:
            for line in lines:
                json.loads(line)
    decoding = time.process_time() - before
    print(json.dumps({"seconds": seconds, "cpu": cpu, "decoding": decoding, "peak_bytes": peak}))


def print_gzip(folder, size):
    """Print what Python's gzip makes of the files, and the CPU seconds of its two directions."""
    packed = 0
    writing = 0.0
    reading = 0.0
    for name in FILES:
        path = folder / f"{name}.gz"
        started = time.process_time()
        with (folder / name).open("rb") as plain, gzip.open(path, "wb", 6) as out:
            shutil.copyfileobj(plain, out, 1 << 20)
        written = time.process_time()
        with gzip.open(path, "rb") as file:
            while file.read(1 << 20):
                pass
        reading += time.process_time() - written
        writing += written - started
        packed += path.stat().st_size
        path.unlink()
    print_packed("gzip -6", size, packed, writing, reading)


def print_zstd(folder, size):
    """Print the same of the command zstd, if there is one."""
    if shutil.which("zstd") is None:
        return
    packed = 0
    writing = 0.0
    reading = 0.0
    for name in FILES:
        path = folder / f"{name}.zst"
        writing += cpu_of("zstd", "-q", "-3", "-T1", str(folder / name), "-o", str(path))
        reading += cpu_of("zstd", "-q", "-t", str(path))
        packed += path.stat().st_size
        path.unlink()
    print_packed("zstd -3", size, packed, writing, reading)


def cpu_of(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def print_packed(name, size, packed, writing, reading):
    print(
        f"{name}: {packed / 1e6:.0f} MB, a factor of {size / packed:.1f}; CPU {writing:.1f} s to "
        f"write, {reading:.2f} s more to read"
    )


def main(folder):
    if not (folder / "scores.jsonl").is_file():
        make_files(folder)
    sizes = [(folder / name).stat().st_size for name in FILES]
    bytes_a_sample = ", ".join(
        f"{name} {size / PROBLEMS / SAMPLES:.0f}" for name, size in zip(FILES, sizes, strict=True)
    )
    print(f"{PROBLEMS} problems x {SAMPLES} samples, files of {sum(sizes) / 1e6:.0f} MB")
    print(f"bytes a sample: {bytes_a_sample}")
    done = subprocess.run(
        [sys.executable, __file__, str(folder), "measure"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout)
    print(f"{measured['seconds']:.2f} s (aim: {MOST_SECONDS:.0f} s), CPU {measured['cpu']:.2f} s")
    ratio = measured["cpu"] / measured["decoding"]
    print(f"CPU / that of decoding every line alone, {measured['decoding']:.2f} s: {ratio:.2f}")
    print(f"{measured['peak_bytes'] / 1e6:.0f} MB (aim: {MOST_BYTES / 1e6:.0f} MB)")
    print_gzip(folder, sum(sizes))
    print_zstd(folder, sum(sizes))


if __name__ == "__main__":
    if sys.argv[2:] == ["measure"]:
        measure(Path(sys.argv[1]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
