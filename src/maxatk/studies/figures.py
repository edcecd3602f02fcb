"""The figures of a study: metric against k, entropy, drift of the policy, and a heat map."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from maxatk.report.figures import (
    MARKERS,
    drawn_name,
    entropy_figure,
    figure1,
    figure_file,
    lines_for,
)
from maxatk.report.tables import shaded, share
from maxatk.studies.findings import GRADIENT_SPIKES, TESTED_KS, Study
from maxatk.studies.recipe import FigureName, split_levels

_DRIFT = "ratio/mean_abs_delta"
_DARK = 0.55  # of a column's range: above it the text of a cell is white


def write_figures(study: Study, folder: Path, names: Sequence[FigureName]) -> None:
    """Write the named figures as SVG and PDF."""
    for name in names:
        for suffix in ("svg", "pdf"):
            FIGURES[name](study, folder / f"{name}.{suffix}")


def _heat_map(study: Study, path: Path) -> None:
    """Draw max@k of every model (row) at every k (column), shaded column by column."""
    comparison = study.comparison
    means = [[run.metric("max@k", k).mean for k in comparison.ks] for run in comparison.runs]
    shades = np.array([shaded(column) for column in zip(*means, strict=True)], dtype=float).T
    size = (2.2 + 0.62 * len(comparison.ks), 1.0 + 0.42 * len(means))
    with figure_file(path, size) as figure:
        axes = figure.subplots()
        axes.imshow(np.nan_to_num(shades), cmap="Blues", aspect="auto", vmin=0, vmax=1.15)
        axes.grid(visible=False)
        for row, values in enumerate(means):
            for column, value in enumerate(values):
                best = shades[row, column] == 1
                axes.text(
                    column,
                    row,
                    share(value),
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    fontweight="bold" if best else "normal",
                    color="white" if shades[row, column] > _DARK else "black",
                )
        axes.set_xticks(range(len(comparison.ks)), [f"max@{k}" for k in comparison.ks])
        axes.tick_params(axis="x", labelrotation=45)
        axes.set_yticks(range(len(means)), [drawn_name(run.name) for run in comparison.runs])


@dataclasses.dataclass(frozen=True)
class _Point:
    """One model: its levels, how far it drifted, what it reached, and how its gradients spiked."""

    first: str
    axis: str
    level: str
    drift: float
    mean: float
    low: float
    high: float
    spikes: float


def _drift(study: Study, path: Path) -> None:
    """Draw max@k, k the largest tested, and gradient spikes against the mean |rho - 1|.

    A color is a level of the first axis of the grids, a column of panels one of the other axes,
    and a marker a level of that one. Models whose samples were all drawn by the policy they
    trained have no place on the logarithmic axis.
    """
    k = study.comparison.shown_ks(TESTED_KS)[-1]
    points = _points(study, k)
    base = study.comparison.baseline
    reached = base.metric("max@k", k).mean
    firsts = list(dict.fromkeys(point.first for point in points))
    colors = {name: line.color for name, line in lines_for([base.name, *firsts]).items()}
    columns = list(dict.fromkeys(point.axis for point in points)) or [""]
    with figure_file(path, (2.0 + 3.0 * len(columns), 5.8)) as figure:
        panels = figure.subplots(2, len(columns), sharex=True, sharey="row", squeeze=False)
        for axis, upper, lower in zip(columns, *panels, strict=True):
            upper.axhline(reached, color=colors[base.name], ls=":")
            upper.set(title=drawn_name(axis), xscale="log")
            lower.set(xlabel="mean |ρ−1| of a sample", xscale="log")
            _draw(upper, lower, [point for point in points if point.axis == axis], colors)
        panels[0, 0].set_ylabel(f"max@{k}")
        panels[1, 0].set_ylabel("p95 / median of gradient norms")
        panels[1, 0].set_yscale("log", base=2)
        panels[1, 0].yaxis.set_major_formatter(ScalarFormatter())
        _name_colors(figure, panels[0, 0], colors, base.name)


def _points(study: Study, k: int) -> list[_Point]:
    """Return the models that moved while they were trained on a rollout batch."""
    found = []
    for run in study.comparison.others:
        logged = study.training[run.name]
        drift = logged.get(_DRIFT)
        if not drift:
            continue
        first, others = split_levels(study.levels[run.name])
        cell = run.metric("max@k", k)
        point = _Point(
            first=first,
            axis=", ".join(others),
            level=", ".join(others.values()),
            drift=drift,
            mean=_known(cell.mean),
            low=_known(cell.low),
            high=_known(cell.high),
            spikes=logged.get(GRADIENT_SPIKES, math.nan),
        )
        found.append(point)
    return found


def _known(value: float | None) -> float:
    return math.nan if value is None else value


def _draw(upper: Axes, lower: Axes, points: Sequence[_Point], colors: Mapping[str, str]) -> None:
    levels = list(dict.fromkeys(point.level for point in points))
    markers = dict(zip(levels, itertools.cycle(MARKERS), strict=False))
    for first in dict.fromkeys(point.first for point in points):
        line = sorted((p for p in points if p.first == first), key=lambda point: point.drift)
        drifts = [point.drift for point in line]
        upper.plot(drifts, [point.mean for point in line], color=colors[first], linewidth=1.0)
        lower.plot(drifts, [point.spikes for point in line], color=colors[first], linewidth=1.0)
    for point in points:
        color, marker = colors[point.first], markers[point.level]
        reach = [[point.mean - point.low], [point.high - point.mean]]
        upper.errorbar(
            point.drift, point.mean, yerr=reach, elinewidth=0.6, color=color, marker=marker
        )
        lower.plot(point.drift, point.spikes, color=color, marker=marker)
    if any(levels):  # models with one axis have no second one to name
        for level in levels:
            shown = drawn_name(level)
            lower.plot([], [], color="black", ls="none", marker=markers[level], label=shown)
        lower.legend(loc="upper left")


def _name_colors(figure: Figure, axes: Axes, colors: Mapping[str, str], base: str) -> None:
    handles = [
        axes.plot([], [], color=color, ls=":" if name == base else "-", label=drawn_name(name))[0]
        for name, color in colors.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)


FIGURES: Mapping[FigureName, Callable[[Study, Path], object]] = {
    "metric": lambda study, path: figure1(study.comparison, path),
    "entropy": lambda study, path: entropy_figure(study.comparison, path),
    "drift": _drift,
    "heat_map": _heat_map,
}
"""Name of a figure -> what draws it into a file."""
