"""Colours and lines: a model has the colour of its name on every page, and no two share one."""

from __future__ import annotations

import colorsys
import dataclasses
import itertools
import zlib
from collections.abc import Iterator, Sequence

from maxatk.objectives import METHODS

BASE = "base"
BASE_COLOR = "#808080"
# Those of Okabe and Ito, which the colour-blind can tell apart, then darker ones of Tol.
PALETTE = (
    *("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#332288", "#882255", "#117733", "#999933", "#aa4466", "#44aa99"),
)
DASHES = ("solid", "dashed", "dotted")
MARKERS = "osD^vP"


@dataclasses.dataclass(frozen=True)
class Line:
    """How one run is drawn in every figure: colour, dash and marker tell it apart thrice."""

    color: str
    dash: str
    marker: str


def lines_for(names: Sequence[str]) -> dict[str, Line]:
    """Return the line of every run; the first name is the baseline, which is dashed.

    `base` is grey. The colour of any other name is that of its place among the methods, or of a
    hash of the name; where two names of a page want one colour, the method keeps it, else the
    first in the alphabet, and the other has the next that is free.
    """
    chosen: dict[str, str] = {BASE: BASE_COLOR}
    places = {name: place for place, name in enumerate(METHODS)}
    wanting = sorted(set(names) - {BASE}, key=lambda name: (places.get(name, len(places)), name))
    for name in wanting:
        first = places.get(name, zlib.crc32(name.encode("utf-8", "replace")))
        chosen[name] = next(c for c in _from(first) if c not in chosen.values())
    found = {}
    for index, name in enumerate(names):
        turn, place = divmod(index - 1, len(MARKERS))
        dash, marker = DASHES[turn % len(DASHES)], MARKERS[place]
        found[name] = Line(chosen[name], *(("dashed", "X") if index == 0 else (dash, marker)))
    return found


def _from(place: int) -> Iterator[str]:
    """Yield colours without end: the palette from this place on, then others around the circle."""
    for step in range(len(PALETTE)):
        yield PALETTE[(place + step) % len(PALETTE)]
    for step in itertools.count():
        hue, light = (step * 0.618034) % 1, 0.32 + 0.06 * (step % 5)
        red, green, blue = colorsys.hls_to_rgb(hue, light, 0.75)
        yield f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
