"""What preparing problems costs: rows a second and peak memory, for growing numbers of rows.

Writes synthetic rows of the CodeContests schema (ten tests, many repeated, and twenty wrong
solutions that are never read) as JSONL and as parquet, prepares them with the paper's filters and
split in a process of its own, and prints one line each. Memory must stay flat, rows/s too: the last
line of a kind is the ratio of the largest file to the smallest.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COUNTS = (10_000, 100_000)
TESTS = 10
GROUP = 1000  # rows of a parquet row group


def row(number: int) -> dict[str, Any]:
    texts = [f"{number + t // 2} " * 20 + "\n" for t in range(TESTS)]
    tests = {"input": texts, "output": texts}
    none: dict[str, list[Any]] = {"input": [], "output": []}
    return {
        "name": f"{number}_A. Row {number}",
        "description": f"Print the line. This is problem {number}. " * 25,
        "public_tests": tests,
        "private_tests": none,
        "generated_tests": none,
        "source": 2,
        "difficulty": number % 6,
        "solutions": {"language": [3], "solution": [f"print(input())  # {number}\n" * 10]},
        "incorrect_solutions": {"language": [3] * 20, "solution": [f"print({number})\n" * 10] * 20},
        "cf_contest_id": number,
        "cf_index": "A",
        "time_limit": {"seconds": 2, "nanos": 0},
        "memory_limit_bytes": 256 << 20,
        "input_file": "",
        "output_file": "",
    }


def write_jsonl(path: Path, count: int) -> None:
    with path.open("w") as out:
        for number in range(count):
            out.write(json.dumps(row(number)) + "\n")


def write_parquet(path: Path, count: int) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    def groups() -> Iterator[Any]:
        for start in range(0, count, GROUP):
            yield pyarrow.Table.from_pylist([row(n) for n in range(start, start + GROUP)], schema)

    full = row(0)
    full["private_tests"] = full["generated_tests"] = full["public_tests"]  # no null types
    schema = pyarrow.Table.from_pylist([full]).schema
    with ParquetWriter(path, schema) as writer:
        for group in groups():
            writer.write_table(group)


def prepare_here(path: str, out: str) -> None:
    from maxatk.problems import PrepareSettings, prepare

    settings = PrepareSettings(
        "code_contests",
        file=path,
        options={"max_difficulty": 3},
        tokenizer="words",
        max_prompt_tokens=512,
        parts={"train": 2490, "test": 276},
    )
    start = time.perf_counter()
    counts = prepare(settings, out, count_tokens=lambda text: len(text.split()))["counts"]
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counted = f"{counts['kept']:>7,} kept, {counts['duplicates']:>9,} repeated tests dropped"
    rows = counts["rows"]
    print(f"{rows:>8,} rows  {counted}  {rows / seconds:>7,.0f} rows/s  peak {peak:>4.0f} MiB")
    print(json.dumps({"rows_a_second": rows / seconds, "peak": peak}), file=sys.stderr)


def main() -> None:
    if len(sys.argv) > 1:
        prepare_here(*sys.argv[1:])
        return
    for name, write in (("jsonl", write_jsonl), ("parquet", write_parquet)):
        measured = []
        for count in COUNTS:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"rows.{name}"
                write(path, count)
                print(f"{name:<8}{path.stat().st_size / 1e6:>6.0f} MB", end="", flush=True)
                out = Path(folder) / "out.jsonl"
                command = [sys.executable, __file__, str(path), str(out)]
                done = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
                measured.append(json.loads(done.stderr.splitlines()[-1]))
        small = measured[0]
        large = measured[-1]
        print(
            f"{name:<8}{COUNTS[-1] // COUNTS[0]} times the rows: "
            f"{large['rows_a_second'] / small['rows_a_second']:.2f} times the rows/s, "
            f"{large['peak'] / small['peak']:.2f} times the memory"
        )


if __name__ == "__main__":
    main()
