"""The figures of a study: metric against k, entropy, drift of the policy, and a heat map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from maxatk.errors import unknown_name
from maxatk.report.figures import entropy_figure, metric_figure, save, standing_alone
from maxatk.report.numbers import share
from maxatk.report.tables import shaded
from maxatk.studies.drift_figure import drift_figure
from maxatk.studies.study import Study

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
    "drift": drift_figure,
    "heat_map": _heat_map,
}
"""Name of a figure -> what draws it into a file."""
