"""The figures of a study: metric against k, entropy, drift of the policy, and a heat map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from maxatk.errors import unknown_name
from maxatk.report.figures import entropy_figure, metric_figure, save, standing_alone
from maxatk.report.numbers import share
from maxatk.report.study import TESTED_KS, Study
from maxatk.report.style import lines_for
from maxatk.report.tables import shaded

_DRIFT = "ratio/mean_abs_delta"
_DARK = 0.55  # of a column's range: above it the text of a cell is white


def write_figures(study: Study, folder: Path, names: list[str]) -> None:
    """Write the named figures (see `FIGURES`) as SVG and PDF.

    Raises InvalidValueError for a name that does not exist.
    """
    check_figures(names)
    for name in names:
        for suffix in ("svg", "pdf"):
            FIGURES[name](study, folder / f"{name}.{suffix}")


def check_figures(names: list[str]) -> None:
    """Raise InvalidValueError for the name of a figure that does not exist."""
    for name in names:
        if name not in FIGURES:
            raise unknown_name("figures", name, FIGURES)


def _metric(study: Study, path: Path) -> None:
    metric_figure(study.comparison, path)


def _entropy(study: Study, path: Path) -> None:
    entropy_figure(study.comparison, path)


def _drift(study: Study, path: Path) -> None:
    """Draw max@k, k the largest tested, against how far policies moved from their samples."""
    largest = study.comparison.shown_ks(TESTED_KS)[-1]
    points: dict[str, list[tuple[float, float, float, float]]] = {}
    for run in study.comparison.others:
        drift = study.training[run.name].get(_DRIFT)
        if drift is None:
            continue
        found = run.metric("max@k", largest)
        first_level = next(iter(study.levels[run.name].values()))
        point = (drift, found["mean"], found["low"], found["high"])
        points.setdefault(first_level, []).append(point)
    base = study.comparison.baseline
    lines = lines_for([base.name, *points])
    with standing_alone():
        figure = Figure(figsize=(7.0, 4.4), layout="constrained", facecolor="white")
        axes = figure.subplots()
        axes.axhline(base.metric("max@k", largest)["mean"], color=lines[base.name].color, ls=":")
        for name, at in points.items():
            x, mean, low, high = np.array(sorted(at)).T
            line = lines[name]
            axes.errorbar(
                x,
                mean,
                yerr=[mean - low, high - mean],
                color=line.color,
                linestyle=line.dash,
                marker=line.marker,
                capsize=2,
                label=name,
            )
        axes.set_xscale("log")
        axes.set(xlabel="mean |ρ−1| of a sample during training", ylabel=f"max@{largest}")
        figure.legend(loc="outside lower center", ncols=3)
        save(figure, path)


def _heat_map(study: Study, path: Path) -> None:
    """Draw max@k of every model (row) at every k (column), shaded column by column."""
    comparison = study.comparison
    means = [[run.metric("max@k", k)["mean"] for k in comparison.ks] for run in comparison.runs]
    shades = np.array([shaded(column) for column in zip(*means, strict=True)], dtype=float).T
    with standing_alone():
        size = (2.2 + 0.62 * len(comparison.ks), 1.0 + 0.42 * len(means))
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
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
        axes.set_yticks(range(len(means)), [run.name for run in comparison.runs])
        save(figure, path)


FIGURES: Mapping[str, Callable[[Study, Path], None]] = {
    "metric": _metric,
    "entropy": _entropy,
    "drift": _drift,
    "heat_map": _heat_map,
}
"""Name of a figure -> what draws it into a file."""
