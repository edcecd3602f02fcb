"""Several evaluations over different problems as one: the seeds of a study, or parts of a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.evaluation.results import FORMAT, with_intervals


def pool_results(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results over the problems of all parts, which are results objects by name.

    The id of a problem becomes `part/id`. Metrics are those at the k that every part has, with
    intervals over all problems, each of them weighing the same. Where every part has the same
    problems, as the seeds of a model of one's own, a problem counts once, with its mean over the
    parts: the same problem twice is no second problem. Of the settings in the manifest those stay
    that all parts share. Raises InvalidValueError without parts or a common k.
    """
    if not parts:
        raise InvalidValueError("parts: must hold at least one results object")
    found = list(parts.values())
    per_problem = _joined([part["per_problem"] for part in found])
    per_problem["ids"] = [
        f"{name}/{i}" for name, p in parts.items() for i in p["per_problem"]["ids"]
    ]
    times = len(found) if _same_problems(found) else 1
    metrics = {name: _metric(per_problem[name], times) for name in found[0]["metrics"]}
    return {
        "format": FORMAT,
        "metrics": metrics,
        "interval": found[0]["interval"],
        "per_problem": per_problem,
        "counts": _counts([part["counts"] for part in found]),
        "entropy": _entropy([part["entropy"] for part in found]),
        "diversity": {name: _mean(per_problem[name]) for name in found[0]["diversity"]},
        "manifest": {
            "settings": _shared([part["manifest"].get("settings", {}) for part in found]),
            "parts": {name: part["manifest"] for name, part in parts.items()},
        },
    }


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return lists one after the other, key by key, for the keys that all parts have."""
    joined: dict[str, Any] = {}
    for key in parts[0]:
        values = [part[key] for part in parts if key in part]
        if len(values) < len(parts):
            continue
        if isinstance(values[0], Mapping):
            joined[key] = _joined(values)
        else:
            whole = not any(value is None for value in values)
            joined[key] = [item for value in values for item in value] if whole else None
    return joined


def _same_problems(parts: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the parts are known to be over the same problems, in the same order."""
    known = [
        (part["manifest"].get("settings", {}).get("problems"), part["per_problem"]["ids"])
        for part in parts
    ]
    return known[0][0] is not None and all(which == known[0] for which in known)


def _metric(columns: Mapping[str, Sequence[float | None]], times: int) -> dict[str, Any]:
    """Return the metric of the joined columns, which hold every problem that many times."""
    if not columns:
        raise InvalidValueError("parts: the evaluations have no k in common")
    values = np.array(list(columns.values()), dtype=np.float64).T
    by_part = np.ma.masked_invalid(values.reshape(times, -1, values.shape[1]))
    means = by_part.mean(axis=0).filled(np.nan)
    return dict(zip(columns, with_intervals(means), strict=True))


def _counts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    for part in parts:
        outcomes.update(part["outcomes"])
    numbers = {key: sum(part[key] for part in parts) for key in ("problems", "samples", "unscored")}
    return {**numbers, "outcomes": dict(sorted(outcomes.items()))}


def _entropy(parts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the entropy over the samples of all parts; the median is not known any more."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    samples = [part["samples"] for part in known]
    tokens = [part["tokens_mean"] * n for part, n in zip(known, samples, strict=True)]
    return {
        "unit": "nats",
        "samples": sum(samples),
        "token_mean": _weighted((part["token_mean"] for part in known), tokens),
        "tokens_mean": _weighted((part["tokens_mean"] for part in known), samples),
        "sequence": {
            "mean": _weighted((part["sequence"]["mean"] for part in known), samples),
            "median": None,
            "histogram": _histogram([part["sequence"]["histogram"] for part in known]),
        },
    }


def _histogram(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of histograms whose widths are powers of two (see `histogram`)."""
    width = max(part["width"] for part in parts)
    counts: Counter[int] = Counter()
    for part in parts:
        together = round(width / part["width"])
        for place, count in enumerate(part["counts"]):
            counts[place // together] += count
    return {"width": width, "counts": [counts[place] for place in range(max(counts) + 1)]}


def _shared(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings that are equal in all parts; problems are all of them together."""
    shared: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [part.get(key) for part in parts]
        if key == "problems":
            shared[key] = {
                "count": sum(part["count"] for part in values if part),
                "sha256": "+".join(part["sha256"] for part in values if part),
            }
        elif isinstance(value, Mapping) and all(isinstance(part, Mapping) for part in values):
            shared[key] = _shared([part for part in values if part is not None])
        elif all(part == value for part in values):
            shared[key] = value
    return shared


def _mean(values: Sequence[float] | None) -> float | None:
    return None if values is None else round(float(np.mean(values)), 6)


def _weighted(values: Iterable[float], weights: Sequence[float]) -> float:
    return round(float(np.average(list(values), weights=weights)), 6)
