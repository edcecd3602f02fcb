"""Figures as SVG text or files: metric against k, entropy, curves, and what methods weigh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from maxatk.check import one_of
from maxatk.errors import InvalidValueError
from maxatk.evaluation.results import METRICS, Results
from maxatk.objectives import weighting
from maxatk.report.comparison import Comparison, Run
from maxatk.report.figure_style import Line, drawn_name, figure_file, inline_svg, lines_for
from maxatk.report.load_runs import Runs, comparison_of
from maxatk.report.model_comparison import ModelComparison
from maxatk.report.paired_tests import paired_tests

_BINS = 40
_RATES = np.linspace(0.005, 0.995, 199)
_Point: TypeAlias = tuple[float | None, float | None, float | None]
"""A mean and the ends of its interval, None where there is none."""


def metric_svg(comparison: Comparison, metric: str, names: Sequence[str] = ()) -> str:
    """Return one panel of Figure 1 as inline SVG; `names`, all of the page, decide on colours."""
    draw = functools.partial(_draw_metric, comparison=comparison, metric=metric, names=names)
    return inline_svg(metric.replace("@", "-at-"), f"{metric} against k", draw)


def entropy_svg(comparison: Comparison, names: Sequence[str] = ()) -> str | None:
    """Return Figure 2 as inline SVG, as `metric_svg` does; None if no run recorded entropy."""
    if not any(run.results.entropy for run in comparison.runs):
        return None
    draw = functools.partial(_draw_entropies, comparison=comparison, names=names)
    return inline_svg("entropy", "Distribution of the entropy of completions", draw)


def figure1(results: Runs, path: str | Path) -> Path:
    """Write Figure 1, max@k and pass@k, to a file, and return its path.

    Raises InvalidValueError for a suffix other than .svg and .pdf, and as `load_comparison`.
    """
    comparison = comparison_of(results)
    with figure_file(path, (9.5, 3.9)) as figure:
        for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
            _draw_metric(axes, comparison, metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
    return Path(path)


def entropy_figure(comparison: Comparison, path: str | Path) -> None:
    """Write Figure 2 to an SVG or PDF file, or no file where no run recorded entropy."""
    if any(run.results.entropy for run in comparison.runs):
        with figure_file(path, (6.5, 3.9)) as figure:
            axes = figure.subplots()
            _draw_entropies(axes, comparison)
            axes.legend(loc="upper right")


def plot(
    source: Runs | Results | ModelComparison | str | list[str] | tuple[str, ...],
    metric: str = "max@k",
    *,
    against: str | None = None,
    n: int = 8,
    k: int = 4,
    ax: Axes | None = None,
) -> Axes:
    """Draw on Matplotlib axes and return them: `ax`, or those of a new figure.

    Results, alone, by name or compared, are drawn as a metric against k with 95% intervals, or
    less that of the model `against`, paired over problems; names of `METHODS` as the factor that
    each puts on the gradient of a prompt's success rate, on-policy, for `n` and `k`. Raises
    InvalidValueError for an unknown metric, model or method and for several benchmarks at once,
    MissingDependencyError without Matplotlib, and as `load_comparison`.
    """
    draw: Callable[[Axes], None]
    if isinstance(source, str | list | tuple):
        names = [source] if isinstance(source, str) else source
        curves = {name: weighting(name, n, k, _RATES) for name in names}
        draw = functools.partial(_draw_weightings, curves=curves, n=n, k=k)
    else:
        comparison = _comparison_in(source)
        metrics = [*METRICS, *comparison.selections]
        one_of("metric", metric, metrics)
        draw = functools.partial(_draw_metric, comparison=comparison, metric=metric)
        if against is not None:
            run = comparison.run(against)
            draw = functools.partial(_draw_gains, comparison=comparison, metric=metric, run=run)
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(layout="constrained").subplots()
    draw(ax)
    ax.legend()
    return ax


def _comparison_in(source: Runs | Results | ModelComparison) -> Comparison:
    if isinstance(source, Results):
        source = {"results": source}
    if isinstance(source, ModelComparison):
        if len(source.comparisons) > 1:
            benchmarks = list(source.comparisons)
            raise InvalidValueError(f"source: draw one of its comparisons, {benchmarks}")
        (source,) = source.comparisons.values()
    return comparison_of(source)


def _draw_metric(
    axes: Axes, comparison: Comparison, metric: str, names: Sequence[str] = ()
) -> None:
    bands: dict[str, list[_Point]] = {}
    for run in comparison.runs:
        means = [run.metric(metric, k) for k in comparison.ks]
        bands[run.name] = [(mean.mean, mean.low, mean.high) for mean in means]
    _draw_bands(axes, comparison.ks, bands, lines_for(names or comparison.names))
    axes.set_ylabel(metric)


def _draw_gains(axes: Axes, comparison: Comparison, metric: str, run: Run) -> None:
    bands: dict[str, list[_Point]] = {}
    for name in comparison.names:
        if name != run.name:
            tests = paired_tests(comparison, metric, name, run.name).values()
            bands[name] = [(test.difference, test.low, test.high) for test in tests]
    lines = lines_for(comparison.names)
    _draw_bands(axes, comparison.ks, bands, lines)
    axes.axhline(0, color=lines[run.name].color, linewidth=1)
    axes.set_ylabel(f"{metric} less that of {drawn_name(run.name)}")


def _draw_bands(
    axes: Axes,
    ks: Sequence[int],
    bands: Mapping[str, Sequence[_Point]],
    lines: Mapping[str, Line],
) -> None:
    """Draw against k the curve of every name in its band, from the points at the `ks`."""
    for name, points in bands.items():
        line = lines[name]
        mean, low, high = np.array(points, dtype=np.float64).T  # NaN where there is none
        axes.fill_between(ks, low, high, color=line.color, alpha=0.12, linewidth=0)
        (curve,) = axes.plot(ks, mean, color=line.color, linestyle=line.dash, marker=line.marker)
        curve.set_label(drawn_name(name))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("k")


def _draw_entropies(axes: Axes, comparison: Comparison, names: Sequence[str] = ()) -> None:
    histograms = {
        run.name: run.results.entropy.sequence.histogram
        for run in comparison.runs
        if run.results.entropy is not None
    }
    lines = lines_for(names or comparison.names)
    # One width for all: widths are powers of two, so that the narrower bins fit into the widest.
    width = max(histogram.width for histogram in histograms.values())
    end = max(histogram.width * len(histogram.counts) for histogram in histograms.values())
    while end / width > _BINS:
        width *= 2
    edges = np.arange(0.0, end + width, width).tolist()
    for name, histogram in histograms.items():
        line = lines[name]
        middles = histogram.width * (np.arange(len(histogram.counts)) + 0.5)
        shares = np.array(histogram.counts) / sum(histogram.counts)
        draw = functools.partial(axes.hist, middles, edges, weights=shares, color=line.color)
        draw(histtype="stepfilled", alpha=0.15)
        draw(histtype="step", linestyle=line.dash, linewidth=1.8, label=drawn_name(name))
    axes.set(xlabel="entropy of a completion, nats", ylabel="share of completions")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _draw_weightings(
    axes: Axes, curves: Mapping[str, npt.NDArray[np.float64]], n: int, k: int
) -> None:
    lines = lines_for(["", *curves])
    for label, curve in curves.items():
        line = lines[label]
        axes.plot(_RATES, curve, color=line.color, linestyle=line.dash, label=label)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(xlabel="success rate p of a prompt", ylabel=f"factor on grad p, n = {n}, k = {k}")
