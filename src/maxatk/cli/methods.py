"""The command `methods`: the rows of `METHODS` with their formulas in words."""

from __future__ import annotations

from typing import Annotated

import tyro

from maxatk.cli.output import OutputFormat, emit, shown
from maxatk.objectives import METHODS, Method, as_method


def command(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    format: OutputFormat = "text",
) -> None:
    """List the methods: what each is unbiased for, its formula, and where it comes from.

    Example: maxatk methods --format md

    Args:
        names: The methods to show; all if none is given.
    """
    methods = {name: as_method(name) for name in names or METHODS}
    rows = [
        {
            "method": name,
            "unbiased_for": method.unbiased_for or None,
            "advantage": _formula(method),
            "source": method.source,
        }
        for name, method in methods.items()
    ]
    emit({"methods": shown(rows)}, format)


def _formula(method: Method) -> str:
    """Return the formula of a method in words: (credit - baseline) / scale."""
    baseline = method.baseline_row.formula
    text = str(method.credit) if baseline == "0" else f"{method.credit} - {baseline}"
    if method.correction != "none":
        text = f"{text}, with {method.correction.replace('_', ' ')} ratios"
    return text if method.scale == "none" else f"({text}) / {method.scale}"
