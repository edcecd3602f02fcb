"""Training curves: what a trainer logged, smoothed, with the raw points behind."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxatk.report.figures import STYLE, inline
from maxatk.report.style import Line, lines_for

QUANTITIES = (
    ("reward", "mean reward of the training groups"),
    ("loss", "loss"),
    ("kl", "KL divergence to the reference model, nats a token"),
    ("entropy", "entropy of the policy, nats a token"),
    ("completions/distinct", "share of distinct completions in a group"),
    ("ratio/mean_abs_delta", "mean |importance ratio − 1|"),
    ("ratio/effective_samples", "effective samples, as a share"),
    ("clip_ratio/region_mean", "share of clipped tokens"),
    ("grad_norm", "norm of the gradient"),
    ("frac_groups_without_signal", "share of groups without a signal"),
)
"""Keys of a log that are drawn beside max@k, and what they are."""

_WINDOW = 0.15  # of a curve's points: what a smoothed point is the mean of


@dataclasses.dataclass(frozen=True)
class Curve:
    """One figure: the key that was logged, what it is, and the inline SVG."""

    key: str
    caption: str
    svg: str


def training_curves(curves: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Curve]:
    """Return the figures of training curves, those of reward and max@k first.

    `curves` are {"name", "log_history"} objects. Of a log history, the rows of a trainer, the keys
    of `QUANTITIES` and "max@k" are drawn against "step" where they are; max@1 is left out where it
    is the reward. `names` are the runs of the report, baseline first: a curve with the name of a
    run has its colour.
    """
    lines = lines_for([*names, *(c["name"] for c in curves if c["name"] not in names)])
    found = []
    with mpl.rc_context(STYLE):
        for number, (key, caption) in enumerate(_drawn(curves)):
            figure = Figure(figsize=(5.0, 3.0), layout="constrained")
            axes = figure.subplots()
            for curve in curves:
                _draw(axes, curve["log_history"], key, lines[curve["name"]])
            axes.set(xlabel="optimizer step", ylabel=key)
            axes.locator_params(axis="x", integer=True)
            svg = inline(figure, f"curve-{number}", f"{key} during training")
            found.append(Curve(key, caption, svg))
    return found


def smoothed(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return the running mean over 15% of the points, centred, and over fewer at the ends."""
    points = np.asarray(values, dtype=np.float64)
    reach = int(_WINDOW * len(points) / 2)
    sums = np.concatenate([[0.0], np.cumsum(points)])
    at = np.arange(len(points))
    # As many points to the left as to the right, so that the ends do not lag.
    each = np.minimum(reach, np.minimum(at, len(points) - 1 - at))
    means: npt.NDArray[np.float64] = (sums[at + each + 1] - sums[at - each]) / (2 * each + 1)
    return means


def _drawn(curves: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    logged = {key for curve in curves for row in curve["log_history"] for key in row}
    levels = sorted(int(m[1]) for key in logged if (m := re.fullmatch(r"max@(\d+)", key)))
    if "reward" in logged:
        levels = [k for k in levels if k > 1]  # max@1 is the mean reward
    shown = [(f"max@{k}", f"max@{k} of the training groups") for k in levels]
    (first, *others) = QUANTITIES
    return [entry for entry in (first, *shown, *others) if entry[0] in logged]


def _draw(axes: Axes, history: Sequence[Mapping[str, Any]], key: str, line: Line) -> None:
    points = [(row["step"], row[key]) for row in history if key in row and "step" in row]
    points = [(step, value) for step, value in points if value is not None and np.isfinite(value)]
    if points:
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, ls="none", marker=".", ms=3.5, color=line.color, alpha=0.5)
        axes.plot(steps, smoothed(values), color=line.color, linestyle=line.dash)
