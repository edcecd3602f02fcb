"""The command `methods`: the table of methods, and a figure of what each of them weighs."""

from __future__ import annotations

from pathlib import Path

from maxatk.objectives import METHODS, Method
from maxatk.objectives.methods import BASELINES


def command(plot: Path | None = None, n: int = 8, k: int = 4) -> None:
    """List the methods: what each is unbiased for, its formula, and where it comes from.

    Example: maxatk methods --plot weighting.svg

    Args:
        plot: SVG or PDF file for the factor that each method puts on the gradient of a prompt's
            success rate.
        n: Samples a prompt in the figure.
        k: The k of the figure.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "unbiased for", "advantage", "source")
    for name, method in METHODS.items():
        table.add_row(name, method.unbiased_for or "-", formula(method), method.source)
    console = Console()
    console.width = max(console.width, 120) if console.is_terminal else 200
    console.print(table)
    if plot:
        from maxatk.report.weighting_figure import weighting_figure

        console.print(f"wrote {weighting_figure(plot, n=n, k=k)}")


def formula(method: Method) -> str:
    """Return the formula of a method in words: (credit - baseline) / scale."""
    baseline = BASELINES[method.baseline].formula
    text = str(method.credit) if baseline == "0" else f"{method.credit} - {baseline}"
    if method.correction != "none":
        text = f"{text}, with {method.correction.replace('_', ' ')} ratios"
    return text if method.scale == "none" else f"({text}) / {method.scale}"
