"""From scores and samples to the content of `results.json`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.evaluate.statistics import (
    LEVEL,
    RESAMPLES,
    FloatArray,
    bootstrap_mean,
    check_ks,
    default_ks,
    histogram,
    metric_values,
)
from maxatk.records import Sample, Score

FORMAT = 1


def build_results(
    problem_ids: Sequence[str],
    samples: Iterable[Sample],
    scores: Iterable[Score],
    *,
    manifest: Mapping[str, Any],
    ks: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the results of one evaluation as a JSON object.

    `ks` defaults to 1, 2, 4, ... up to the number of samples of a problem (the smallest, where
    problems differ). Every problem must have a score. Raises InvalidValueError for a k that no
    problem has samples for.
    """
    samples, scores = list(samples), list(scores)
    rewards, counts = reward_matrix(problem_ids, scores)
    fewest = int(counts.min())
    ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    values = metric_values(rewards, ks)
    distinct = _distinct(problem_ids, samples)
    return {
        "format": FORMAT,
        "metrics": {name: _with_intervals(ks, columns) for name, columns in values.items()},
        "interval": {"method": "percentile bootstrap over problems", "level": LEVEL}
        | {"resamples": RESAMPLES},
        "per_problem": {
            "ids": list(problem_ids),
            "samples": counts.tolist(),
            "scored": (~np.isnan(rewards)).sum(axis=1).tolist(),
            "correct": (rewards >= 1).sum(axis=1).tolist(),
            "distinct": distinct,
            **{name: _columns(ks, columns) for name, columns in values.items()},
        },
        "counts": _counts(problem_ids, scores),
        "entropy": _entropy(samples),
        "diversity": {"distinct": round(float(np.mean(distinct)), 6)},
        "manifest": dict(manifest),
    }


def only_problems(results: Mapping[str, Any], problem_ids: Sequence[str]) -> dict[str, Any]:
    """Return results with the metrics and the values of these problems alone, in this order.

    The counts, entropy and diversity stay those of the whole run. Raises KeyError for an id
    that is not there.
    """
    before = results["per_problem"]
    rows = {problem_id: row for row, problem_id in enumerate(before["ids"])}
    kept = [rows[problem_id] for problem_id in problem_ids]

    def chosen(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: chosen(inner) for key, inner in value.items()}
        return [value[row] for row in kept]

    per_problem = chosen(before)
    metrics = {}
    for name, columns in results["metrics"].items():
        ks = [int(k) for k in columns]
        values = np.array([per_problem[name][str(k)] for k in ks], dtype=np.float64).T
        metrics[name] = _with_intervals(ks, values)
    return {**results, "metrics": metrics, "per_problem": per_problem}


def reward_matrix(
    problem_ids: Sequence[str], scores: Iterable[Score]
) -> tuple[FloatArray, np.ndarray]:
    """Return rewards (P, n), NaN where unscored or absent, and the number of samples (P,)."""
    by_problem: dict[str, list[float]] = {problem_id: [] for problem_id in problem_ids}
    for score in scores:
        reward = np.nan if score.reward is None else score.reward
        by_problem[score.problem_id].append(reward)
    counts = np.array([len(by_problem[problem_id]) for problem_id in problem_ids])
    rewards = np.full((len(counts), int(counts.max())), np.nan)
    for row, problem_id in enumerate(problem_ids):
        rewards[row, : counts[row]] = by_problem[problem_id]
    return rewards, counts


def _with_intervals(ks: Sequence[int], values: FloatArray) -> dict[str, dict[str, Any]]:
    found = bootstrap_mean(values)
    return {
        str(k): {
            "mean": _number(found.mean[column]),
            "low": _number(found.low[column]),
            "high": _number(found.high[column]),
            "problems": int(found.problems[column]),
        }
        for column, k in enumerate(ks)
    }


def _columns(ks: Sequence[int], values: FloatArray) -> dict[str, list[float | None]]:
    return {str(k): [_number(v) for v in values[:, column]] for column, k in enumerate(ks)}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def _distinct(problem_ids: Sequence[str], samples: Iterable[Sample]) -> list[int]:
    texts: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        texts[sample.problem_id].add(sample.completion)
    return [len(texts[problem_id]) for problem_id in problem_ids]


def _counts(problem_ids: Sequence[str], scores: Sequence[Score]) -> dict[str, Any]:
    outcomes = Counter(score.outcome.value for score in scores)
    return {
        "problems": len(problem_ids),
        "samples": len(scores),
        "unscored": sum(score.reward is None for score in scores),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _entropy(samples: Sequence[Sample]) -> dict[str, Any] | None:
    known = [s for s in samples if s.entropy is not None and s.tokens is not None]
    if not known:
        return None
    token = np.array([s.entropy for s in known], dtype=np.float64)
    tokens = np.array([s.tokens for s in known], dtype=np.float64)
    sequence = token * tokens
    return {
        "unit": "nats",
        "samples": len(known),
        "token_mean": round(float(sequence.sum() / tokens.sum()), 6),
        "tokens_mean": round(float(tokens.mean()), 6),
        "sequence": {
            "mean": round(float(sequence.mean()), 6),
            "median": round(float(np.median(sequence)), 6),
            "histogram": histogram(sequence),
        },
    }
