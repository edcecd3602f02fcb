"""The figures of a report as SVG text: metric against k, and entropy."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxatk.errors import unknown_name
from maxatk.evaluation.sources import ResultsSource
from maxatk.report.runs import METRICS, Comparison, Run, load_comparison
from maxatk.report.style import Line, lines_for

# Drawn in this colour, then replaced by the text colour of the page, light or dark.
_INK = "#010203"
_BINS = 40
_DATES = {".svg": "Date", ".pdf": "CreationDate"}  # left out: equal figures are equal files

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "maxatk",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.grid": True,
    "grid.color": _INK,
    "grid.alpha": 0.12,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}


def metric_svg(comparison: Comparison, metric: str) -> str:
    """Return one panel of Figure 1 as inline SVG: a metric against k, bands of 95%."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        _draw_metric(figure.subplots(), comparison, metric)
        return inline(figure, metric.replace("@", "-at-"), f"{metric} against k")


def entropy_svg(comparison: Comparison) -> str | None:
    """Return Figure 2 as inline SVG, the entropy of completions; None if no run recorded it."""
    if not any(run.results["entropy"] for run in comparison.runs):
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        _draw_entropies(figure.subplots(), comparison)
        return inline(figure, "entropy", "Distribution of the entropy of completions")


def figure1(
    results: Mapping[str, ResultsSource], path: str | Path, *, baseline: str | None = None
) -> Path:
    """Write Figure 1 to an SVG or PDF file, max@k and pass@k side by side, and return its path.

    The file stands alone: white ground, its own legend, in an SVG text as outlines. Its suffix
    decides. Raises InvalidValueError for another suffix, and as `load_comparison`.
    """
    return metric_figure(load_comparison(results, baseline=baseline), path)


def metric_figure(comparison: Comparison, path: str | Path) -> Path:
    """Write Figure 1 of a loaded comparison; raises as `figure1`."""
    with standing_alone():
        figure = Figure(figsize=(9.5, 3.9), layout="constrained", facecolor="white")
        for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
            _draw_metric(axes, comparison, metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
        return save(figure, path)


def entropy_figure(comparison: Comparison, path: str | Path) -> Path | None:
    """Write Figure 2 to an SVG or PDF file; None, and no file, where no run recorded entropy."""
    if not any(run.results["entropy"] for run in comparison.runs):
        return None
    with standing_alone():
        figure = Figure(figsize=(6.5, 3.9), layout="constrained", facecolor="white")
        axes = figure.subplots()
        _draw_entropies(axes, comparison)
        axes.legend(loc="upper right")
        return save(figure, path)


def standing_alone() -> AbstractContextManager[None]:
    """Return the style of a figure in a file of its own: in an SVG, text as outlines."""
    return mpl.rc_context({**STYLE, "svg.fonttype": "path"})


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure and return its path; its suffix decides the type.

    Raises InvalidValueError for a suffix other than .svg and .pdf.
    """
    path = Path(path)
    if path.suffix not in _DATES:
        raise unknown_name("suffix of the figure", path.suffix, _DATES)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={_DATES[path.suffix]: None})
    return path


def _draw_metric(axes: Axes, comparison: Comparison, metric: str) -> None:
    ks = comparison.ks
    lines = lines_for([run.name for run in comparison.runs])
    for run in comparison.runs:
        line = lines[run.name]
        found = [run.metric(metric, k) for k in ks]
        mean, low, high = (
            np.array([row[part] for row in found], dtype=np.float64)
            for part in ("mean", "low", "high")
        )
        axes.fill_between(ks, low, high, color=line.color, alpha=0.12, linewidth=0)
        axes.plot(
            ks, mean, color=line.color, linestyle=line.dash, marker=line.marker, label=run.name
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="k", ylabel=metric)


def _longest(run: Run) -> float:
    histogram = run.results["entropy"]["sequence"]["histogram"]
    return float(histogram["width"] * len(histogram["counts"]))


def _draw_entropies(axes: Axes, comparison: Comparison) -> None:
    runs = [run for run in comparison.runs if run.results["entropy"]]
    lines = lines_for([run.name for run in comparison.runs])
    width = max(run.results["entropy"]["sequence"]["histogram"]["width"] for run in runs)
    longest = max(_longest(run) for run in runs)
    while longest / width > _BINS:
        width *= 2
    for run in runs:
        _draw_entropy(axes, run, width, lines[run.name])
    axes.set(xlabel="entropy of a completion, nats", ylabel="share of completions")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _draw_entropy(axes: Axes, run: Run, width: float, line: Line) -> None:
    histogram = run.results["entropy"]["sequence"]["histogram"]
    together = round(width / histogram["width"])
    counts = np.array(histogram["counts"], dtype=np.float64)
    counts = np.pad(counts, (0, -len(counts) % together)).reshape(-1, together).sum(axis=1)
    edges = width * np.arange(len(counts) + 1)
    shares = counts / counts.sum()
    axes.stairs(shares, edges, fill=True, color=line.color, alpha=0.15)
    axes.stairs(shares, edges, color=line.color, linewidth=1.8, linestyle=line.dash, label=run.name)


def inline(figure: Figure, name: str, label: str) -> str:
    """Return a figure as SVG to stand in a page; ids begin with `name`, unique on the page."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Ids are unique in one figure, not on a page of several.
    for before in (' id="', "url(#", 'href="#'):
        svg = svg.replace(before, f"{before}{name}-")
    head, body = svg.split(">", 1)
    svg = re.sub(r' (width|height)="[^"]*"', "", head) + ">" + body
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
