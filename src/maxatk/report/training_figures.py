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
_FARTHEST = 1e15


def curve_svg(curves: Sequence[Mapping[str, Any]], names: Sequence[str], key: str) -> str:
    """Return a logged key against the step as inline SVG, in the colours of all `names`."""
    lines = lines_for([*names, *(c["name"] for c in curves if c["name"] not in names)])

    def draw(axes: Axes) -> None:
        for curve in curves:
            rows = [(known(row, "step"), known(row, key)) for row in curve["log_history"]]
            points = np.array(rows, dtype=np.float64).reshape(-1, 2)
            # What is missing is NaN here, and beyond what any training logs an axis has no ticks.
            steps, values = points[(np.abs(points) < _FARTHEST).all(axis=1)].T
            line = lines[curve["name"]]
            axes.plot(steps, values, color=line.color, linewidth=0.8, alpha=0.35)
            axes.plot(steps, smoothed(values), color=line.color, linestyle=line.dash)
        axes.set(xlabel="optimizer step", ylabel=key)
        axes.locator_params(axis="x", integer=True)

    name = "curve-" + re.sub(r"\W", "-", key)
    return inline_svg(name, f"{key} during training", draw, height=3.0)


def smoothed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the running mean over 15% of the points, centred; at an end the line through them."""
    reach = int(_WINDOW * len(values) / 2)
    if not reach:
        return values
    at = np.arange(2 * reach + 1)
    means = np.convolve(values, np.full(len(at), 1 / len(at)), "valid")
    ends = values[: len(at)], values[-len(at) :]
    first, last = (np.polyval(np.polyfit(at, end, 1), at) for end in ends)
    return np.concatenate([first[:reach], means, last[-reach:]])


def drawn_quantities(curves: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the keys of `QUANTITIES` and max@k that logs have, and what they are."""
    logged = {key for curve in curves for row in curve["log_history"] for key in row}
    levels = sorted(int(m[1]) for key in logged if (m := re.fullmatch(r"max@(\d+)", key)))
    if "reward" in logged:
        levels = [k for k in levels if k > 1]  # max@1 is the mean reward
    shown = [(f"max@{k}", f"max@{k} of the training groups") for k in levels]
    (first, *others) = QUANTITIES
    return [entry for entry in (first, *shown, *others) if entry[0] in logged]
