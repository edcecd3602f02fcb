"""The figure "what your method weighs": the factor on a success rate's gradient, every method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from maxatk.objectives import METHODS, Method, weighting
from maxatk.report.figures import save, standing_alone
from maxatk.report.style import lines_for

_RATES = np.linspace(0.005, 0.995, 199)


def weighting_figure(path: str | Path, *, n: int = 8, k: int = 4) -> Path:
    """Write the factor of every row of `METHODS` against the success rate, to an SVG or PDF file.

    Methods are drawn on-policy; those with one curve share a line. Raises as `figures.save` and
    `weighting`.
    """
    curves: dict[tuple[float, ...], list[str]] = {}
    for name, method in METHODS.items():
        factor = weighting(method, n, k, _RATES)
        curves.setdefault(tuple(factor.round(9)), []).append(name)
    unbiased = [c for c, names in curves.items() if _claims(METHODS[names[0]])]
    with standing_alone():
        figure = Figure(figsize=(9.5, 5.6), layout="constrained", facecolor="white")
        panels = figure.subplots(1, 2, sharey=True)
        titles = ("unbiased for what they name", "scaled, centred or as published")
        groups = (unbiased, [curve for curve in curves if curve not in unbiased])
        for axes, title, group in zip(panels, titles, groups, strict=True):
            labels = [", ".join(curves[curve]) for curve in group]
            for label, curve in zip(labels, group, strict=True):
                line = lines_for(["", *labels])[label]
                axes.plot(_RATES, curve, color=line.color, linestyle=line.dash, label=label)
            axes.set_yscale("symlog", linthresh=0.1)
            axes.set(title=title, xlabel="success rate p of a prompt")
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), fontsize=8)
        panels[0].set_ylabel(f"factor on grad p, n = {n}, k = {k}")
        return save(figure, path)


def _claims(method: Method) -> bool:
    return bool(method.unbiased_for)
