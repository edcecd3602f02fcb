"""Figures as SVG text or files: metric against k, entropy, curves, and what methods weigh."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.evaluation.results import METRICS, Results
from maxatk.folders import known
from maxatk.objectives import METHODS, weighting
from maxatk.report.comparing import ModelComparison
from maxatk.report.deciding import paired_tests
from maxatk.report.runs import BASE, Comparison, Run, Runs, comparison_of

_INK = "#010203"  # replaced by the text colour of the page, light or dark
_BINS = 40
_DATES = {".svg": "Date", ".pdf": "CreationDate"}  # left out: equal figures are equal files
_INKED = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
STYLE = {
    **dict.fromkeys((*_INKED, "grid.color"), _INK),
    "svg.fonttype": "none",
    "svg.hashsalt": "maxatk",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.12,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}
BASE_COLOR = "#808080"
# Each has a contrast of 3 to 1 on both grounds of the page; the first four are of Okabe and Ito.
PALETTE = (
    *("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b88600", "#3f93d8"),
    *("#8a5cf0", "#b32883", "#2f8540", "#74711a", "#d4304c", "#2f9ca5"),
)
DASHES = ("solid", "dashed", "dotted")
MARKERS = "osD^vP"
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
_RATES = np.linspace(0.005, 0.995, 199)


@dataclasses.dataclass(frozen=True)
class Line:
    """How one run is drawn in every figure: colour, dash and marker tell it apart thrice."""

    color: str
    dash: str
    marker: str


def lines_for(names: Sequence[str]) -> dict[str, Line]:
    """Return the line of every run; the first name is the baseline, which is dashed.

    `base` is grey. Others have the colour of their place among the methods, or of a hash, or the
    next that is free: methods choose first, then the others by alphabet.
    """
    chosen: dict[str, str] = {BASE: BASE_COLOR}
    places = {name: place for place, name in enumerate(METHODS)}
    for name in sorted({*names} - {BASE}, key=lambda name: (places.get(name, len(places)), name)):
        first = places.get(name, zlib.crc32(name.encode("utf-8", "replace"))) % len(PALETTE)
        colors = (*PALETTE[first:], *PALETTE[:first])
        chosen[name] = next((c for c in colors if c not in chosen.values()), colors[0])
    others = itertools.cycle(itertools.product(DASHES, MARKERS))
    styles = itertools.chain([("dashed", "X")], others)
    return {name: Line(chosen[name], *style) for name, style in zip(names, styles, strict=False)}


def metric_svg(comparison: Comparison, metric: str, names: Sequence[str] = ()) -> str:
    """Return one panel of Figure 1 as inline SVG; `names`, all of the page, decide on colours."""
    name, label = metric.replace("@", "-at-"), f"{metric} against k"
    return _inline(name, label, lambda axes: _draw_metric(axes, comparison, metric, names))


def entropy_svg(comparison: Comparison, names: Sequence[str] = ()) -> str | None:
    """Return Figure 2 as inline SVG, as `metric_svg` does; None if no run recorded entropy."""
    if not any(run.results.entropy for run in comparison.runs):
        return None
    label = "Distribution of the entropy of completions"
    return _inline("entropy", label, lambda axes: _draw_entropies(axes, comparison, names))


def figure1(results: Runs, path: str | Path) -> Path:
    """Write Figure 1, max@k and pass@k, to a file, and return its path.

    Raises InvalidValueError for a suffix other than .svg and .pdf, and as `load_comparison`.
    """
    comparison = comparison_of(results)
    with _figure_file(path, (9.5, 3.9)) as figure:
        for axes, metric in zip(figure.subplots(1, 2), METRICS, strict=True):
            _draw_metric(axes, comparison, metric)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))
    return Path(path)


def entropy_figure(comparison: Comparison, path: str | Path) -> None:
    """Write Figure 2 to an SVG or PDF file, or no file where no run recorded entropy."""
    if any(run.results.entropy for run in comparison.runs):
        with _figure_file(path, (6.5, 3.9)) as figure:
            axes = figure.subplots()
            _draw_entropies(axes, comparison)
            axes.legend(loc="upper right")


def _drawn_name(name: str) -> str:
    """Return a name as matplotlib draws it: no formula, and not left out of a legend."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


@contextlib.contextmanager
def _figure_file(path: str | Path, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw in, and write it: in an SVG, text as outlines."""
    path = Path(path)
    if path.suffix not in _DATES:
        raise unknown_name("suffix of the figure", path.suffix, _DATES)
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={_DATES[path.suffix]: None})


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
        if metric not in metrics:
            raise unknown_name("metric", metric, metrics)
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
            known = list(source.comparisons)
            raise InvalidValueError(f"source: draw one of its comparisons, {known}")
        (source,) = source.comparisons.values()
    return comparison_of(source)


def _draw_metric(
    axes: Axes, comparison: Comparison, metric: str, names: Sequence[str] = ()
) -> None:
    found = {
        run.name: [dataclasses.astuple(run.metric(metric, k))[:3] for k in comparison.ks]
        for run in comparison.runs
    }
    _draw_bands(axes, comparison.ks, found, lines_for(names or comparison.names))
    axes.set_ylabel(metric)


def _draw_gains(axes: Axes, comparison: Comparison, metric: str, run: Run) -> None:
    found = {}
    for name in comparison.names:
        if name != run.name:
            tests = paired_tests(comparison, metric, name, run.name).values()
            found[name] = [(test.difference, test.low, test.high) for test in tests]
    lines = lines_for(comparison.names)
    _draw_bands(axes, comparison.ks, found, lines)
    axes.axhline(0, color=lines[run.name].color, linewidth=1)
    axes.set_ylabel(f"{metric} less that of {_drawn_name(run.name)}")


def _draw_bands(
    axes: Axes,
    ks: Sequence[int],
    found: Mapping[str, Sequence[Sequence[float | None]]],
    lines: Mapping[str, Line],
) -> None:
    for name, numbers in found.items():
        line, (mean, low, high) = lines[name], np.array(numbers, dtype=np.float64).T
        axes.fill_between(ks, low, high, color=line.color, alpha=0.12, linewidth=0)
        (drawn,) = axes.plot(ks, mean, color=line.color, linestyle=line.dash, marker=line.marker)
        drawn.set_label(_drawn_name(name))
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
    width = max(found.width for found in histograms.values())
    longest = max(found.width * len(found.counts) for found in histograms.values())
    while longest / width > _BINS:
        width *= 2
    edges = np.arange(0.0, longest + width, width).tolist()
    for name, histogram in histograms.items():
        middles = histogram.width * (np.arange(len(histogram.counts)) + 0.5)
        shares, color = np.array(histogram.counts) / sum(histogram.counts), lines[name].color
        draw = functools.partial(axes.hist, middles, edges, weights=shares, color=color)
        draw(histtype="stepfilled", alpha=0.15)
        draw(histtype="step", linestyle=lines[name].dash, linewidth=1.8, label=_drawn_name(name))
    axes.set(xlabel="entropy of a completion, nats", ylabel="share of completions")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _inline(name: str, label: str, draw: Callable[[Axes], None], height: float = 3.6) -> str:
    """Return what is drawn as SVG to stand in a page; `name` is unique there and begins all ids."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, height), layout="constrained", facecolor="none")
        axes = figure.subplots(subplot_kw={"facecolor": "none"})
        draw(axes)
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)  # savefig would draw twice
    place = axes.get_position()
    ends = " ".join(f"{value:.6g}" for value in (place.x0, place.x1, *axes.get_xlim()))
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # Ids are unique in one figure, not on a page of several.
    for before in (' id="', "url(#", 'href="#'):
        svg = svg.replace(before, f"{before}{name}-")
    head, body = svg.split(">", 1)
    svg = re.sub(r' (width|height)="[^"]*"', "", head) + ">" + body
    # What a style element said of the whole page.
    said = f'role="img" aria-label="{label}" data-x="{ends}"'  # the axes, for a click
    joints = 'stroke-linejoin="round" stroke-linecap="butt"'
    return svg.replace("<svg ", f"<svg {said} {joints} ", 1)


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
    return _inline(name, f"{key} during training", draw, height=3.0)


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


def _draw_weightings(
    axes: Axes, curves: Mapping[str, npt.NDArray[np.float64]], n: int, k: int
) -> None:
    lines = lines_for(["", *curves])
    for label, curve in curves.items():
        line = lines[label]
        axes.plot(_RATES, curve, color=line.color, linestyle=line.dash, label=label)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(xlabel="success rate p of a prompt", ylabel=f"factor on grad p, n = {n}, k = {k}")
