"""Figures of trainings: a logged number against the step, as SVG in a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from maxatk.folders import known
from maxatk.report.figure_style import inline_svg, lines_for

QUANTITIES = (  # keys of a log that are drawn beside max@k
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
    ("step_time", "seconds of an optimizer step"),
)
_WINDOW = 0.15  # of a curve's points: what a smoothed point is the mean of
_FARTHEST = 1e15  # beyond what any training logs; an axis up to there still has ticks


def curve_svg(curves: Sequence[Mapping[str, Any]], names: Sequence[str], key: str) -> str:
    """Return a logged key against the step as inline SVG, in the colours of all `names`.

    The axis reaches the `last_step` of a curve that has one, of a training that still runs.
    """
    trained_only = [curve["name"] for curve in curves if curve["name"] not in names]
    lines = lines_for([*names, *trained_only])

    def draw(axes: Axes) -> None:
        for curve in curves:
            rows = [(known(row, "step"), known(row, key)) for row in curve["log_history"]]
            points = np.array(rows, dtype=np.float64).reshape(-1, 2)  # (rows, step and value)
            # A value that a row lacks is NaN here, and none is below the bound.
            drawable = (np.abs(points) < _FARTHEST).all(axis=1)
            steps, values = points[drawable].T
            line = lines[curve["name"]]
            axes.plot(steps, values, color=line.color, linewidth=0.8, alpha=0.35)
            # A line through one point alone would not be seen.
            marker = line.marker if len(steps) == 1 else ""
            axes.plot(steps, smoothed(values), color=line.color, linestyle=line.dash, marker=marker)
        axes.set(xlabel="optimizer step", ylabel=key)
        ends = [curve["last_step"] for curve in curves if curve.get("last_step")]
        if ends:
            axes.set_xlim(left=0, right=max(*ends, axes.get_xlim()[1]))
        axes.locator_params(axis="x", integer=True)

    name = "curve-" + re.sub(r"\W", "-", key)
    return inline_svg(name, f"{key} during training", draw, height=3.0)


def smoothed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the running mean over 15% of the points, centred; at an end the line through them."""
    reach = int(_WINDOW * len(values) / 2)
    if not reach:
        return values
    width = 2 * reach + 1
    means = np.convolve(values, np.full(width, 1 / width), "valid")
    # Half a window at either end has no centred mean. A straight line stays what it is.
    first = _fitted_line(values[:width])
    last = _fitted_line(values[-width:])
    return np.concatenate([first[:reach], means, last[-reach:]])


def _fitted_line(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the straight line through values by least squares, at each of them."""
    places = np.arange(len(values))
    return np.asarray(np.polyval(np.polyfit(places, values, 1), places), dtype=np.float64)


def drawn_quantities(curves: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the keys of `QUANTITIES` and max@k that logs have, and what they are."""
    logged = {key for curve in curves for row in curve["log_history"] for key in row}
    ks = []
    for key in logged:
        max_at = re.fullmatch(r"max@(\d+)", key)
        if max_at is not None:
            ks.append(int(max_at[1]))
    if "reward" in logged:
        ks = [k for k in ks if k > 1]  # max@1 is the mean reward
    best_of = [(f"max@{k}", f"max@{k} of the training groups") for k in sorted(ks)]
    reward, *other_quantities = QUANTITIES
    return [(key, title) for key, title in (reward, *best_of, *other_quantities) if key in logged]
