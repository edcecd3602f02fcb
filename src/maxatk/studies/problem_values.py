"""problems.csv of a study: what every model is worth on every problem, for whoever tests again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from maxatk.report.comparison import Comparison, Run
from maxatk.statistics.intervals import none_for_nan
from maxatk.writing import write_text

PROBLEM_VALUES = "problems.csv"


def write_problem_values(comparison: Comparison, seeds: Sequence[int], folder: Path) -> None:
    """Write the metrics of every problem, seed and model to problems.csv in `folder`.

    `comparison` is that of `pooled_models`, over `seeds`. A row has the model, the seed, the
    problem's id, the metric and a column for every k, empty where a problem has fewer scored
    samples. The metrics are max@k, pass@k where rewards are not 0 or 1, and max@k by every stored
    score that chooses. Every interval and test of the study follows from the numbers.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "seed", "problem", "metric", *comparison.ks])
    metrics = [*comparison.metrics, *comparison.selections]
    for seed, seed_comparison in zip(seeds, comparison.seeds, strict=True):
        for run in seed_comparison.runs:
            for metric in metrics:
                for problem, values in _rows(run, metric, comparison.ks):
                    writer.writerow([run.name, seed, problem, metric, *values])
    write_text(folder / PROBLEM_VALUES, text.getvalue())


def _rows(run: Run, metric: str, ks: Sequence[int]) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the id of every problem, and its value at every k."""
    values = run.values(metric, ks)
    for problem, at_every_k in zip(run.results.ids, values, strict=True):
        yield problem, [none_for_nan(value) for value in at_every_k]
