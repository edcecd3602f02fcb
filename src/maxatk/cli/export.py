"""The command `export`: a run in the form of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from maxatk.errors import MissingFileError
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.store import read_records
from maxatk.exchange.export import Exported, export
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Sample, Score


def command(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    out: Path,
    to: Literal["human-eval", "inspect", "jsonl", "parquet"],
    problems: str | None = None,
) -> None:
    """Write the samples and scores of a run for another tool.

    Example: maxatk export runs/base --to parquet --out base.parquet

    Example: maxatk export runs/base --to inspect --problems test.jsonl --out base.eval

    Args:
        run: A folder written by eval or score.
        out: The file to write.
        to: human-eval writes its lines, inspect a log (.eval or .json) whose epochs are the
            samples, jsonl and parquet a table with one row a sample.
        problems: A benchmark's name or a problems.jsonl, for the prompts and answers of a log.
    """
    if not (run / SCORES).is_file():
        raise MissingFileError(f"{run}: holds no {SCORES}")
    scores = read_records(run / SCORES, Score.from_json)
    samples = read_records(run / SAMPLES, Sample.from_json) if (run / SAMPLES).is_file() else {}
    known = {} if problems is None else problems_by_id(load_problems(problems), source=problems)
    rows = (Exported(s, samples.get(key), known.get(s.problem_id)) for key, s in scores.items())
    print(f"{to}: {export(rows, out, to=to, name=run.name)}")  # noqa: T201
