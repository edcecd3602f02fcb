"""The findings of a report in sentences, computed from the numbers, whichever way they fall."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxatk.report.numbers import change, change_interval, share
from maxatk.report.runs import Comparison, Run

METRIC = "max@k"


def headlines(comparison: Comparison, ks: Sequence[int]) -> list[str]:
    """Return one sentence for every run beside the baseline, and one on the best of all.

    `ks` are the smallest and the largest k to speak of. A difference is called one only where
    its paired 95% interval excludes zero.
    """
    small, large = comparison.shown_ks(ks)[0], comparison.shown_ks(ks)[-1]
    asked = [small] if small == large else [small, large]
    sentences = [_sentence(comparison, run, asked) for run in comparison.others]
    if comparison.others:
        sentences.append(_best(comparison, large))
    return sentences


def _sentence(comparison: Comparison, run: Run, ks: Sequence[int]) -> str:
    found = comparison.difference(run, METRIC, ks)
    base = comparison.baseline.name
    parts: list[str] = []
    for column, k in enumerate(ks):
        low, high = found.low[column], found.high[column]
        numbers = (
            f"{share(run.metric(METRIC, k)['mean'])} against "
            f"{share(comparison.baseline.metric(METRIC, k)['mean'])}, "
            f"{change(found.mean[column])} {change_interval(low, high)}"
        )
        relation = f"{_relation(found.mean[column], low, high)} {base} "
        repeated = bool(parts) and parts[-1].startswith(relation)
        parts.append(f"{'' if repeated else relation}at max@{k} ({numbers})")
    return f"{run.name} {' and '.join(parts)}."


def _relation(mean: float, low: float, high: float) -> str:
    if math.isnan(mean):
        return "has no problem in common with"
    if low > 0:
        return "is above"
    return "is below" if high < 0 else "cannot be told apart from"


def _best(comparison: Comparison, k: int) -> str:
    def mean(run: Run) -> float:
        found = run.metric(METRIC, k)["mean"]
        return -1.0 if found is None else float(found)

    best = max(comparison.runs, key=mean)
    return f"The highest max@{k} is that of {best.name}: {share(mean(best))}."
