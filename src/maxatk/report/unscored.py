"""Samples without a verdict: does a model lack more of them than chance explains?"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from maxatk.evaluation.statistics.significance import adjusted_p_values, wilcoxon
from maxatk.report.numbers import p_value
from maxatk.report.runs import Comparison, Run

_ALPHA = 0.05


def unscored_warnings(comparison: Comparison) -> list[str]:
    """Return a sentence for every two runs whose shares of unscored samples differ.

    An unscored sample leaves its problem, and a problem with fewer than k of the others leaves the
    mean at k. Where that happens to one model more often than to another, or in other problems,
    their difference may be one of what was scored. The shares are compared problem by problem
    (Wilcoxon, two-sided), adjusted for the number of pairs. Raises MissingDependencyError without
    SciPy.
    """
    shares = {run.name: _shares(run) for run in comparison.runs}
    missing = [run for run in comparison.runs if shares[run.name].any()]
    pairs = [
        pair
        for pair in itertools.combinations(comparison.runs, 2)
        if any(run in missing for run in pair)
    ]
    p_values = [wilcoxon(shares[one.name], shares[other.name]).p for one, other in pairs]
    return [
        f"{_said(one)} and {_said(other)}: not by chance (p {_compared(p)}), so that a difference "
        "of the two may be one of what was scored."
        for (one, other), p in zip(pairs, adjusted_p_values(p_values), strict=True)
        if p <= _ALPHA
    ]


def _shares(run: Run) -> npt.NDArray[np.float64]:
    samples, scored = (
        np.array(run.results["per_problem"][key], dtype=np.float64) for key in ("samples", "scored")
    )
    return (samples - scored) / samples


def _said(run: Run) -> str:
    counts = run.results["counts"]
    return f"{run.name} has {counts['unscored'] / counts['samples']:.1%} of its samples unscored"


def _compared(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"
