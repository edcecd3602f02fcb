"""How numbers are written: `.123`, a true minus, and intervals in brackets."""

from __future__ import annotations

import math

MINUS = "−"


def share(value: float | None) -> str:
    """Return a value of a metric as `.123` or `1.000`; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    text = f"{abs(value):.3f}".removeprefix("0")
    return MINUS + text if value < 0 and text != ".000" else text


def change(value: float | None) -> str:
    """Return a difference with its sign, as `+.123`; zero has none, and a missing one is a dash."""
    text = share(value)
    return text if text.startswith(MINUS) or text in ("–", ".000") else "+" + text


def interval(low: float | None, high: float | None) -> str:
    """Return the interval of a metric as `[.120, .140]`."""
    return f"[{share(low)}, {share(high)}]"


def change_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a difference as `[+.120, +.140]`."""
    return f"[{change(low)}, {change(high)}]"


def p_value(value: float | None) -> str:
    """Return a p-value as `.039`, or `<.001`; a dash where there is none."""
    return "<.001" if value is not None and value < 0.0005 else share(value)


def decimal(value: float | None, digits: int) -> str:
    """Return a number with so many decimals, as `12.45`; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"
