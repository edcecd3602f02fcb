"""The command `methods`: the table of methods, and a figure of what each of them weighs."""

from __future__ import annotations

from pathlib import Path

from maxatk.cli.tables import OutputFormat, print_json
from maxatk.objectives import METHODS, Method
from maxatk.objectives.methods import BASELINES


def command(
    plot: Path | None = None, n: int = 8, k: int = 4, format: OutputFormat = "text"
) -> None:
    """List the methods: what each is unbiased for, its formula, and where it comes from.

    Example: maxatk methods --plot weighting.svg

    Args:
        plot: SVG or PDF file for the factor that each method puts on the gradient of a prompt's
            success rate.
        n: Samples a prompt in the figure.
        k: The k of the figure.
        format: How the table is printed; json is one object with a row a method.
    """
    if plot:
        from maxatk.report.weighting_figure import weighting_figure

        weighting_figure(plot, n=n, k=k)
    if format == "json":
        print_json({"methods": [_row(name, method) for name, method in METHODS.items()]})
    else:
        _print_table()
    if plot and format == "text":
        print(f"wrote {plot}")  # noqa: T201


def _row(name: str, method: Method) -> dict[str, str | None]:
    return {
        "method": name,
        "unbiased_for": method.unbiased_for or None,
        "advantage": formula(method),
        "source": method.source,
    }


def _print_table() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "unbiased for", "advantage", "source")
    for name, method in METHODS.items():
        table.add_row(name, method.unbiased_for or "-", formula(method), method.source)
    console = Console()
    console.width = max(console.width, 120) if console.is_terminal else 200
    console.print(table)


def formula(method: Method) -> str:
    """Return the formula of a method in words: (credit - baseline) / scale."""
    baseline = BASELINES[method.baseline].formula
    text = str(method.credit) if baseline == "0" else f"{method.credit} - {baseline}"
    if method.correction != "none":
        text = f"{text}, with {method.correction.replace('_', ' ')} ratios"
    return text if method.scale == "none" else f"({text}) / {method.scale}"
