"""How every figure looks: colours and lines of runs, figures as SVG in a page and as files."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from maxatk.check import as_path, one_of
from maxatk.objectives import METHODS
from maxatk.report.comparison import BASE
from maxatk.report.figure_fonts import no_warning_for_each_letter, use_fonts_that_have_the_letters
from maxatk.writing import atomic_write

_INK = "#010203"  # replaced by the text colour of the page, light or dark
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
    "#d55e00",
    "#0072b2",
    "#009e73",
    "#cc79a7",
    "#b88600",
    "#3f93d8",
    "#8a5cf0",
    "#b32883",
    "#2f8540",
    "#74711a",
    "#d4304c",
    "#2f9ca5",
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

    `base` is grey. Others have the colour of their place among the methods, or of a hash, or the
    next that is free: methods choose first, then the others by alphabet.
    """
    colors = _colors_of(names)
    lines = {}
    styles = itertools.cycle(itertools.product(DASHES, MARKERS))
    for place, name in enumerate(names):
        dash, marker = ("dashed", "X") if place == 0 else next(styles)
        lines[name] = Line(colors[name], dash, marker)
    return lines


def _colors_of(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of every name, the same on every page as far as colours are free."""
    colors = {BASE: BASE_COLOR}
    places = {method: place for place, method in enumerate(METHODS)}

    def methods_first(name: str) -> tuple[int, str]:
        return places.get(name, len(places)), name

    for name in sorted({*names} - {BASE}, key=methods_first):
        # Python's own hash of a text differs from process to process.
        wish = places.get(name, zlib.crc32(name.encode("utf-8", "replace"))) % len(PALETTE)
        from_wish_on = PALETTE[wish:] + PALETTE[:wish]
        free = [color for color in from_wish_on if color not in colors.values()]
        colors[name] = free[0] if free else PALETTE[wish]
    return colors


def drawn_name(name: str) -> str:
    """Return a name as matplotlib draws it: no formula, and not left out of a legend."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


@contextlib.contextmanager
def figure_file(path: str | Path, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw in, and write it: in an SVG, text as outlines."""
    path = as_path("path", path)
    one_of("suffix of the figure", path.suffix, _DATES)
    with mpl.rc_context({**STYLE, "svg.fonttype": "path"}):
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        yield figure
        use_fonts_that_have_the_letters(figure)
        with atomic_write(path) as partial, no_warning_for_each_letter():
            file_type = path.suffix[1:]
            figure.savefig(partial, format=file_type, metadata={_DATES[path.suffix]: None})


def inline_svg(name: str, label: str, draw: Callable[[Axes], None], height: float = 3.6) -> str:
    """Return what is drawn as SVG to stand in a page; `name` is unique there and begins all ids."""
    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, height), layout="constrained", facecolor="none")
        axes = figure.subplots(subplot_kw={"facecolor": "none"})
        draw(axes)
        with no_warning_for_each_letter():  # a browser has fonts of its own
            # savefig would draw twice
            FigureCanvasSVG(figure).print_svg(buffer, metadata=no_metadata)
    box = axes.get_position()
    # Where the axes begin and end in the figure, and their values there: a click becomes a k.
    ends = " ".join(f"{value:.6g}" for value in (box.x0, box.x1, *axes.get_xlim()))
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    # Ids are unique in one figure, not on a page of several.
    for before in (' id="', "url(#", 'href="#'):
        svg = svg.replace(before, f"{before}{name}-")
    head, body = svg.split(">", 1)
    svg = re.sub(r' (width|height)="[^"]*"', "", head) + ">" + body
    attributes = f'role="img" aria-label="{label}" data-x="{ends}"'
    # What the style element had said, which would have been true for the whole page.
    joints = 'stroke-linejoin="round" stroke-linecap="butt"'
    return svg.replace("<svg ", f"<svg {attributes} {joints} ", 1)
