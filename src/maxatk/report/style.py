"""Colours and lines: the baseline grey, then the colour-blind-safe palette of Okabe and Ito."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

BASELINE = "#808080"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("solid", "dashed", "dotted")
MARKERS = "osD^vP"


@dataclasses.dataclass(frozen=True)
class Line:
    """How one run is drawn in every figure: colour, dash and marker tell it apart thrice."""

    color: str
    dash: str
    marker: str


def lines_for(names: Sequence[str]) -> dict[str, Line]:
    """Return the line of every run; the first name is the baseline."""
    found = {}
    for index, name in enumerate(names):
        turn, place = divmod(index - 1, len(PALETTE))
        dash = DASHES[turn % len(DASHES)]
        found[name] = (
            Line(BASELINE, "dashed", "X")
            if index == 0
            else Line(PALETTE[place], dash, MARKERS[place])
        )
    return found
