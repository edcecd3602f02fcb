"""The figure of a study that shows what a policy reaches against how far it left its samples."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxatk.report.figures import save, standing_alone
from maxatk.report.study import TESTED_KS, Study
from maxatk.report.style import MARKERS, lines_for

_DRIFT = "ratio/mean_abs_delta"


@dataclasses.dataclass(frozen=True)
class _Point:
    """One model: how far it drifted, what it reached, and its level on the second axis."""

    drift: float
    mean: float
    low: float
    high: float
    level: str


def drift_figure(study: Study, path: Path) -> None:
    """Draw max@k, k the largest tested, against the mean |rho - 1| of a training.

    A color is a level of the first axis and a marker one of the other axes, whose level stands at
    the point; points that differ in that level alone are joined. Models whose samples were all
    drawn by the policy they trained have no place on the logarithmic axis.
    """
    largest = study.comparison.shown_ks(TESTED_KS)[-1]
    joined = _points(study, largest)
    base = study.comparison.baseline
    firsts = list(dict.fromkeys(first for first, _ in joined))
    lines = lines_for([base.name, *firsts])
    seconds = dict.fromkeys(axis for _, axis in joined)
    markers = dict(zip(seconds, itertools.cycle(MARKERS), strict=False))
    with standing_alone():
        figure = Figure(figsize=(7.0, 4.8), layout="constrained", facecolor="white")
        axes = figure.subplots()
        level = base.metric("max@k", largest)["mean"]
        axes.axhline(level, color=lines[base.name].color, ls=":", label=base.name)
        for (first, axis), points in joined.items():
            _draw(axes, points, color=lines[first].color, marker=markers[axis])
        _add_names(axes, {first: lines[first].color for first in firsts}, markers)
        axes.set_xscale("log")
        axes.set(xlabel="mean |ρ−1| of a sample during training", ylabel=f"max@{largest}")
        figure.legend(loc="outside lower center", ncols=4)
        save(figure, path)


def _points(study: Study, k: int) -> dict[tuple[str, str], list[_Point]]:
    """Return the models that moved, by their level on the first axis and the name of the others."""
    found: dict[tuple[str, str], list[_Point]] = {}
    for run in study.comparison.others:
        drift = study.training[run.name].get(_DRIFT)
        if not drift:
            continue
        (_, first), *others = study.levels[run.name].items()
        axis, level = ", ".join(name for name, _ in others), ", ".join(at for _, at in others)
        cell = run.metric("max@k", k)
        point = _Point(drift, cell["mean"], cell["low"], cell["high"], level)
        found.setdefault((first, axis), []).append(point)
    return found


def _draw(axes: Axes, points: list[_Point], *, color: str, marker: str) -> None:
    points = sorted(points, key=lambda point: point.drift)
    axes.errorbar(
        [point.drift for point in points],
        [point.mean for point in points],
        yerr=[[p.mean - p.low for p in points], [p.high - p.mean for p in points]],
        color=color,
        marker=marker,
        linewidth=1.2,
        elinewidth=0.6,
    )
    for point in points:
        at = (point.drift, point.mean)
        axes.annotate(point.level, at, (4, 4), textcoords="offset points", fontsize=7.5)


def _add_names(axes: Axes, colors: Mapping[str, str], markers: Mapping[str, str]) -> None:
    """Name colors and markers apart, so that the legend does not list every pair of them."""
    for name, color in colors.items():
        axes.plot([], [], color=color, label=name)
    for axis, marker in markers.items():
        if axis:  # a model with one axis has no second one to name
            axes.plot([], [], color="black", linestyle="none", marker=marker, label=axis)
