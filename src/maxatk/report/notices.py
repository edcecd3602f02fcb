"""What a reader should know of runs before any number: in what they differ, and what they lack."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.evaluation.results import MOST_CUT_OFF
from maxatk.report.runs import ALPHA, Comparison, Run
from maxatk.report.tables import p_value
from maxatk.statistics.intervals import FEW_PROBLEMS
from maxatk.statistics.tests import adjusted_p_values, wilcoxon

_MEANT_TO_DIFFER = (
    *("model.model", "model.weights", "model.stored_dtype"),
    *("samples.sha256", "rewards.sha256"),
)
_NUMERICS = ("gpu", "driver", "cuda", "torch", "transformers", "vllm", "peft")
"""What of an environment the numbers of two models may differ by."""


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to know; `id` is that of its element on the page, `lines` are about single runs."""

    id: str
    text: str
    lines: Sequence[str] = ()


def notices(comparison: Comparison) -> list[Notice]:
    """Return what there is to know of these runs."""
    problems = comparison.baseline.problems
    differing, missing = setting_differences(comparison), unscored_warnings(comparison)
    counts = {run.name: run.results.counts for run in comparison.runs}
    lacking = [f"{name}: {count.lacking}." for name, count in counts.items() if count.lacking]
    found = [
        Notice("setting-differences", "The runs differ in more than the model:", differing),
        Notice("unscored-differs", "Samples are not missing at random:", missing),
        Notice("cut-off", "Samples were cut off:", cut_off_warnings(comparison)),
        Notice("unscored", "Samples without a reward:", lacking),
    ]
    found = [notice for notice in found if notice.lines]
    if problems < FEW_PROBLEMS:
        text = (
            f"With {problems} problem{'' if problems == 1 else 's'} only, intervals are "
            "Student's t. Where most problems are at the ceiling of 1 even these are too narrow: "
            "the tables say how many are below it."
        )
        found.append(Notice("few-problems", text))
    return found


def setting_differences(comparison: Comparison) -> list[str]:
    """Return one line for every setting in which a run differs from the baseline.

    So it does for GPU and versions. The model itself, or the file of its samples, is left out: it
    is what runs are meant to differ in.
    """
    first = _recorded(comparison.baseline)
    lines = []
    for run in comparison.others:
        mine = _recorded(run)
        for key in sorted(first.keys() | mine.keys()):
            if key not in _MEANT_TO_DIFFER and first.get(key) != mine.get(key):
                lines.append(
                    f"{key}: {first.get(key)!r} for {comparison.baseline.name}, "
                    f"{mine.get(key)!r} for {run.name}"
                )
    return lines


def _recorded(run: Run) -> dict[str, Any]:
    versions = {name: run.results.recorded(f"environment.{name}") for name in _NUMERICS}
    return {**_flat(run.results.recorded("settings") or {}), **versions}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{name}.{key}" if name else key))
    return flat


def cut_off_warnings(comparison: Comparison) -> list[str]:
    """Return a sentence for every run with more of its samples cut off than can be passed over."""
    return [
        f"{run.name} has {share:.1%} of its samples cut off by their length, so that its metrics "
        "say much about sampling.max_new_tokens."
        for run in comparison.runs
        if (share := run.results.cut_off) is not None and share > MOST_CUT_OFF
    ]


def unscored_warnings(comparison: Comparison) -> list[str]:
    """Return a sentence for every two runs whose shares of unscored samples differ.

    An unscored sample leaves its problem, and a problem with fewer than k of the others leaves the
    mean at k. Where that happens to one model more often than to another, or in other problems,
    their difference may be one of what was scored. The shares are compared problem by problem
    (Wilcoxon, two-sided), adjusted for the number of pairs.
    """
    shares = {run.name: _shares(run) for run in comparison.runs}
    pairs = [
        pair
        for pair in itertools.combinations(comparison.runs, 2)
        if any(shares[run.name].any() for run in pair)
    ]
    p_values = [wilcoxon(shares[one.name], shares[other.name]) for one, other in pairs]
    return [
        f"{_said(one)} and {_said(other)}: not by chance (p {_p_said(p)}), so that a difference "
        "of the two may be one of what was scored."
        for (one, other), p in zip(pairs, adjusted_p_values(p_values), strict=True)
        if p <= ALPHA
    ]


def _shares(run: Run) -> npt.NDArray[np.float64]:
    found = run.results.per_problem
    samples, scored = (np.array(c, dtype=np.float64) for c in (found.samples, found.scored))
    return (samples - scored) / samples


def _said(run: Run) -> str:
    counts = run.results.counts
    return f"{run.name} has {counts.unscored / counts.samples:.1%} of its samples unscored"


def _p_said(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"
