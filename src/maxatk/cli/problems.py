"""The verb `problems`: a benchmark's rows as problems.jsonl, with its reference solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.problems import load_benchmark
from maxatk.records import Sample, write_jsonl


def command(
    name: Annotated[str, tyro.conf.Positional],
    /,
    out: Path,
    split: str | None = None,
    limit: int | None = None,
    file: Path | None = None,
    solutions: Path | None = None,
) -> None:
    """Convert a benchmark to problems.jsonl and, if asked, its solutions to samples.jsonl.

    Args:
        name: mbpp or code_contests.
        out: The problems.jsonl to write.
        split: A split of the benchmark; its test split if not given.
        limit: Take only the first problems.
        file: A local JSONL or JSON file of the benchmark's schema, instead of the hub.
        solutions: Also write the reference solutions here, as samples that `score` can judge.
    """
    loaded = load_benchmark(name, split=split, limit=limit, file=file)
    write_jsonl(out, (solved.problem.to_json() for solved in loaded.solved))
    print(f"{out}: {len(loaded.solved)} problems")  # noqa: T201
    for row in loaded.left_out:
        print(f"  left out {row.row_id}: {row.reason}")  # noqa: T201
    if solutions is not None:
        samples = [
            Sample(problem_id=s.problem.id, sample=0, completion=s.solution)
            for s in loaded.solved
            if s.solution is not None
        ]
        write_jsonl(solutions, (sample.to_json() for sample in samples))
        print(f"{solutions}: {len(samples)} reference solutions")  # noqa: T201
