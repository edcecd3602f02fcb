"""Fonts for letters that the font of the figures lacks, such as Chinese ones in a model's name."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterator

from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

_log = logging.getLogger(__name__)

_PLACEHOLDERS = "Last Resort"  # begins the name of a font that has a box for every letter


def use_fonts_that_have_the_letters(figure: Figure) -> None:
    """Add to the font of each text of a figure the installed ones that have the letters it lacks.

    Letters of no installed font are drawn as boxes, of which the log has one line, once.
    """
    own_letters = _letters_of(findfont(FontProperties()))
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    lacking = {letter for text in texts for letter in text.get_text() if letter.isprintable()}
    lacking -= own_letters
    if not lacking:
        return
    fonts, nowhere = _fonts_with("".join(sorted(lacking)))
    if nowhere:
        _say_once(nowhere)
    for text in texts:
        if not lacking.isdisjoint(text.get_text()):
            text.set_fontfamily([*text.get_fontfamily(), *fonts])


@contextlib.contextmanager
def no_warning_for_each_letter() -> Iterator[None]:
    """Silence Matplotlib, which warns of every letter that no font has, in every figure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from", UserWarning)
        yield


@functools.cache
def _fonts_with(letters: str) -> tuple[tuple[str, ...], str]:
    """Return installed fonts that have letters, of the most first, and the letters of no font."""
    wanted = set(letters)
    letters_of = {
        entry.name: _letters_of(entry.fname) & wanted
        for entry in fontManager.ttflist
        if _is_upright(entry) and not entry.name.startswith(_PLACEHOLDERS)
    }
    fonts = []
    while wanted and letters_of:
        font = max(sorted(letters_of), key=lambda name: len(letters_of[name] & wanted))
        if not letters_of[font] & wanted:
            break
        fonts.append(font)
        wanted -= letters_of[font]
    return tuple(fonts), "".join(sorted(wanted))


def _is_upright(entry: FontEntry) -> bool:
    return entry.style == "normal" and entry.weight in (400, "normal", "regular")


def _letters_of(file: str) -> set[str]:
    """Return the letters that a font file has."""
    return {chr(code) for code in get_font(file).get_charmap()}


@functools.cache
def _say_once(letters: str) -> None:
    _log.warning(
        "figures: no installed font has %s; figure files show boxes instead. Install a font that "
        "has them, such as Noto Sans CJK for Chinese, Japanese and Korean",
        " ".join(letters),
    )
