"""What one answer and the best of N cost one another: a model is a point at (max@1, max@N)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from maxatk.evaluation.results import Mean
from maxatk.report.comparison import Comparison
from maxatk.report.figure_style import drawn_name, inline_svg, lines_for

FEWEST_MODELS = 3  # two are told apart faster by the table


def trade_off_svg(comparison: Comparison, k: int, names: Sequence[str] = ()) -> str | None:
    """Return max@1 against max@k of every model as inline SVG; None for fewer than three models.

    `names`, all of the page, decide on colours. A line joins the front, see `front`.
    """
    if len(comparison.runs) < FEWEST_MODELS or not {1, k} <= set(comparison.ks) or k == 1:
        return None
    draw = functools.partial(_draw, comparison=comparison, k=k, names=names)
    return inline_svg("trade-off", f"max@{k} against max@1", draw)


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names that no other beats in both values, by the first value, ascending.

    To beat is to be at least as good in both and better in one.
    """
    unbeaten = []
    for name, point in points.items():
        if not any(_beats(other, point) for other in points.values()):
            unbeaten.append(name)
    return sorted(unbeaten, key=lambda name: points[name])


def _beats(point: tuple[float, float], other: tuple[float, float]) -> bool:
    return point != other and point[0] >= other[0] and point[1] >= other[1]


def _draw(axes: Axes, comparison: Comparison, k: int, names: Sequence[str]) -> None:
    lines = lines_for(names or comparison.names)
    points: dict[str, tuple[float, float]] = {}
    for run in comparison.runs:
        first = run.metric("max@k", 1)
        best = run.metric("max@k", k)
        if first.mean is None or best.mean is None:
            continue
        points[run.name] = (first.mean, best.mean)
        line = lines[run.name]
        axes.errorbar(
            first.mean,
            best.mean,
            xerr=_reach(first),
            yerr=_reach(best),
            color=line.color,
            marker=line.marker,
            markersize=7,
            elinewidth=0.8,
            label=drawn_name(run.name),
        )
    on_front = [points[name] for name in front(points)]
    firsts = [first for first, _ in on_front]
    bests = [best for _, best in on_front]
    axes.plot(firsts, bests, color="gray", linestyle="dotted", linewidth=1.2, zorder=0)
    axes.set_xlabel("max@1")
    axes.set_ylabel(f"max@{k}")


def _reach(value: Mean) -> list[list[float]] | None:
    """Return how far the interval reaches below and above the mean, None without an interval."""
    if value.mean is None or value.low is None or value.high is None:
        return None
    return [[value.mean - value.low], [value.high - value.mean]]
