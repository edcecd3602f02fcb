"""From scores and samples to the content of `results.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import unknown_name
from maxatk.evaluation.statistics.intervals import (
    FEW_PROBLEMS,
    LEVEL,
    RESAMPLES,
    FloatArray,
    check_ks,
    check_threshold,
    default_ks,
    mean_interval,
    metric_values,
)
from maxatk.evaluation.tally import SampleTally, ScoreTally
from maxatk.objectives import max_at_k
from maxatk.records import Sample, Score

FORMAT = 1
CEILING = 1.0  # from here on a sample passes, and more samples cannot raise the best
_METHOD = (
    f"percentile bootstrap over problems; Student's t where fewer than {FEW_PROBLEMS} have a value"
)
DIVERSITY = ("distinct", "programs", "program_entropy")
MOST_CUT_OFF = 0.2  # share of samples cut off by length from which on the metrics mislead


def build_results(
    problem_ids: Sequence[str],
    samples: Iterable[Sample] | SampleTally | None,
    scores: Iterable[Score] | ScoreTally,
    *,
    manifest: Mapping[str, Any],
    ks: Sequence[int] | None = None,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    column: str | None = None,
    meta: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the results of one evaluation as a JSON object.

    A sample without a reward counts as a sample here: a problem with fewer than k rewards is left
    out of the mean at k, and `problems` beside the mean says how many are in it. Beside "max@k" and
    "pass@k" there is "max@k by NAME" for every column of the scores that no rewarded sample lacks:
    the reward of the one of k samples that this column would choose.

    Args:
        problem_ids: The problems, in the order of their values; each must have a score.
        samples: The samples, counted or not (a tally); None where they are unknown.
        scores: The scores, counted or not (a tally).
        manifest: What the results say of where they come from.
        ks: 1, 2, 4, ... by default, up to the number of samples of a problem (the smallest, where
            problems differ).
        more_ks: Further k beside `ks`.
        threshold: The reward from which a sample passes.
        column: A column of the scores that stands in for the reward; not where they are a tally.
        meta: The fields of one's own of every problem.

    Raises InvalidValueError for a k above the number of samples of the problem that has the
    fewest, a threshold that is not finite, and a column that no score has.
    """
    check_threshold(threshold)
    if not isinstance(scores, ScoreTally):
        scores = ScoreTally().add_scores(scores if column is None else by_column(scores, column))
    if samples is not None and not isinstance(samples, SampleTally):
        samples = SampleTally().add_samples(samples)
    rewards, counts = scores.rewards(problem_ids)
    fewest = int(counts.min())
    ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    ks = sorted({*ks, *check_ks(more_ks, fewest)})
    values = metric_values(rewards, ks, threshold=threshold)
    for name, selection in scores.further(problem_ids).items():
        values[chosen_by(name)] = max_at_k(rewards, ks, selection=selection)
    programs, entropies = scores.programs(problem_ids) or (None, None)
    found: dict[str, Any] = {
        "ids": list(problem_ids),
        "samples": counts.tolist(),
        "scored": (~np.isnan(rewards)).sum(axis=1).tolist(),
        "correct": (rewards >= threshold).sum(axis=1).tolist(),
        "distinct": None if samples is None else samples.distinct(problem_ids),
        "programs": programs,
        "program_entropy": entropies,
        **({"meta": [dict(fields) for fields in meta]} if meta and any(meta) else {}),
        **{name: _columns(ks, columns) for name, columns in values.items()},
    }
    return {
        "format": FORMAT,
        "metrics": _metrics(ks, values),
        "interval": {"method": _METHOD, "level": LEVEL, "resamples": RESAMPLES},
        "threshold": threshold,
        "column": column,
        "per_problem": found,
        "counts": scores.counts(),
        "finish_reasons": samples and samples.finish_reasons(),
        "entropy": samples and samples.entropy(),
        "diversity": {name: _mean(found[name]) for name in DIVERSITY},
        "manifest": dict(manifest),
    }


def chosen_by(column: str) -> str:
    """Return the name of the metric max@k where a column of the scores chooses."""
    return f"max@k by {column}"


def by_column(scores: Iterable[Score], column: str) -> list[Score]:
    """Return the scores with a column of theirs as the reward, None where a score lacks it.

    Raises InvalidValueError where no score has it.
    """
    scores = list(scores)
    names = {name for score in scores for name in score.columns}
    if column not in names:
        raise unknown_name("column", column, names)
    return [dataclasses.replace(score, reward=score.columns.get(column)) for score in scores]


def only_problems(results: Mapping[str, Any], problem_ids: Sequence[str]) -> dict[str, Any]:
    """Return results with the metrics and the values of these problems alone, in this order.

    The counts of samples, entropy and diversity stay those of the whole run. Raises KeyError for
    an id that is not there.
    """
    before = results["per_problem"]
    rows = {problem_id: row for row, problem_id in enumerate(before["ids"])}
    kept = [rows[problem_id] for problem_id in problem_ids]

    def chosen(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: chosen(inner) for key, inner in value.items()}
        if value is None:
            return None
        return [value[row] for row in kept]

    per_problem = chosen(before)
    metrics = {}
    for name, columns in results["metrics"].items():
        ks = [int(k) for k in columns]
        values = np.array([per_problem[name][str(k)] for k in ks], dtype=np.float64).T
        metrics[name] = dict(zip(map(str, ks), with_intervals(values), strict=True))
    counts = {**results["counts"], "problems": len(kept)}
    return {**results, "metrics": metrics, "per_problem": per_problem, "counts": counts}


def with_intervals(values: FloatArray) -> list[dict[str, Any]]:
    """Return what `metrics` of a results object holds of every column of values (P, K).

    "mean", "low" and "high" (95%), "problems", those with a value, and "below": those of them whose
    value is below the ceiling of 1. Where that is few, the mean rests on few.
    """
    found = mean_interval(values)
    # A reward above 1 shows that 1 is no ceiling: then every value can still rise.
    ceiling = np.inf if (values > CEILING).any() else CEILING
    below = (values < ceiling).sum(axis=0)
    return [
        {
            "mean": _number(found.mean[column]),
            "low": _number(found.low[column]),
            "high": _number(found.high[column]),
            "problems": int(found.problems[column]),
            "below": int(below[column]),
        }
        for column in range(values.shape[1])
    ]


def _metrics(
    ks: Sequence[int], values: Mapping[str, FloatArray]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the means of every metric and k; all are of the same resamples of the problems."""
    intervals = with_intervals(np.concatenate(list(values.values()), axis=1))
    return {
        name: dict(zip(map(str, ks), intervals[place * len(ks) :], strict=False))
        for place, name in enumerate(values)
    }


def _mean(values: Sequence[float] | None) -> float | None:
    return None if values is None else round(float(np.mean(values)), 6)


def _columns(ks: Sequence[int], values: FloatArray) -> dict[str, list[float | None]]:
    return {str(k): [_number(v) for v in values[:, column]] for column, k in enumerate(ks)}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def cut_off(results: Mapping[str, Any]) -> float | None:
    """Return the share of the samples that were cut off by their length; None where unknown."""
    reasons = results.get("finish_reasons")
    if not reasons:
        return None
    return float(reasons.get("length", 0) / sum(reasons.values()))
