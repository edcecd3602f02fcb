"""Results as pandas data frames, for analyses of one's own; pandas is imported where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from maxatk.errors import MissingDependencyError
from maxatk.evaluation.sources import ResultsSource
from maxatk.report.runs import METRICS, load_comparison

if TYPE_CHECKING:
    import pandas as pd


def problem_frame(results: Mapping[str, ResultsSource]) -> pd.DataFrame:
    """Return one row a model, problem, metric and k, with the value; NaN where there is none.

    The columns are model, problem, metric, k, value, samples and scored (of the problem). Raises
    MissingDependencyError without pandas, and as `load_comparison`.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError(
            "data frames need the package 'pandas': pip install 'maxatk[report]'"
        ) from error
    comparison = load_comparison(results)
    frames = []
    for run in comparison.runs:
        per_problem = run.results["per_problem"]
        common = {
            "model": run.name,
            "problem": per_problem["ids"],
            "samples": per_problem["samples"],
            "scored": per_problem["scored"],
        }
        for metric in METRICS:
            for k, values in zip(comparison.ks, run.values(metric, comparison.ks).T, strict=True):
                frames.append(pd.DataFrame({**common, "metric": metric, "k": k, "value": values}))
    columns = ["model", "problem", "metric", "k", "value", "samples", "scored"]
    return pd.concat(frames, ignore_index=True)[columns]
