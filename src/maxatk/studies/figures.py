"""The figures of a study: metric against k, entropy, and a heat map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from maxatk.report.figures import drawn_name, entropy_figure, figure1, figure_file
from maxatk.report.tables import shaded, share
from maxatk.studies.findings import Study
from maxatk.studies.recipe import FigureName

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


FIGURES: Mapping[FigureName, Callable[[Study, Path], object]] = {
    "metric": lambda study, path: figure1(study.comparison, path),
    "entropy": lambda study, path: entropy_figure(study.comparison, path),
    "heat_map": _heat_map,
}
"""Name of a figure -> what draws it into a file."""
