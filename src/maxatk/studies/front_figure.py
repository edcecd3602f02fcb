"""The front of a study as a figure: a panel for every N, max@1 across and max@N up."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from maxatk.report.comparison import BASE, Comparison
from maxatk.report.figure_style import Line, drawn_name, figure_file, lines_for
from maxatk.studies.front import Front

_PANEL = (3.6, 3.6)  # inches


def front_figure(front: Front, comparison: Comparison, path: Path) -> None:
    """Write the curve of every method, and the model before training, to an SVG or PDF file.

    A method whose models are all below that model at max@1 has no curve.
    """
    methods = list(dict.fromkeys(best.method for best in front.best))
    lines = lines_for([BASE, *methods])
    _, *aims = dict.fromkeys(estimate.k for estimate in front.best[0].estimates)  # 1 is first
    size = (_PANEL[0] * len(aims), _PANEL[1] + 0.7)
    with figure_file(path, size) as figure:
        panels = figure.subplots(1, len(aims), squeeze=False)[0]
        for axes, aim in zip(panels, aims, strict=True):
            for method in methods:
                _draw_curve(axes, front, method, aim, lines[method])
            if BASE in comparison.names:
                base = comparison.run(BASE)
                first, best = (base.metric("max@k", k).mean for k in (1, aim))
                if first is not None and best is not None:  # so many samples may lack a reward
                    axes.plot(first, best, "X", color=lines[BASE].color, label=BASE, markersize=8)
            axes.set_xlabel("max@1")
            axes.set_ylabel(f"max@{aim}")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))


def _draw_curve(axes: Axes, front: Front, method: str, aim: int, line: Line) -> None:
    points = [point for point in front.curves if (point.method, point.aim) == (method, aim)]
    # Several floors may choose the same models.
    places = sorted({(point.first, point.best) for point in points})
    firsts = [first for first, _ in places]
    bests = [best for _, best in places]
    rival = method in front.rivals
    axes.plot(
        firsts,
        bests,
        color=line.color,
        linestyle="dashed" if rival else "solid",
        marker=line.marker,
        label=drawn_name(method),
    )
