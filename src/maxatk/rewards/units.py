"""A number with its unit, such as `18 dollars`: units are not compared."""

from __future__ import annotations

import re

# Sizes of numbers: `42 million` is another number than 42.
_SCALES = {
    "hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12
}  # fmt: skip
# Words that are no unit behind a number: they change it or say that there is another one.
_CHANGING = (
    "and but not nor either neither else unless until maybe alternatively than less more "
    "most least below above inclusive plus minus times divided over mod modulo choose sin "
    "cos tan cot sec csc arcsin arccos arctan log exp sqrt root factorial squared cubed "
    "percent percentage pct dozen infinity inf half halves third thirds quarter quarters "
    "fourth fourths fifth fifths tenth tenths hundredth hundredths thousandth thousandths "
    "base binary octal hex alpha beta gamma delta theta lambda sigma omega phi psi rho tau "
    "abc xyz def hundreds thousands millions billions dozens"
)
_NO_UNITS = frozenset(_CHANGING.split())
# Units of one or two letters. Others, such as `x`, are variables; K and M may be thousands.
_SHORT = (
    "m s h g J N W V A C F L l mm cm dm km nm mg kg ml mL dl cl kJ kW kN kV mA Hz Pa eV ft "
    "in yd mi lb oz hr pm am ha sq cu of"
)
_SHORT_UNITS = frozenset(_SHORT.split())
_COUNT = r"(?:\d{1,3}(?:(?:,|\{,\})\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_POWER_OF_TEN = r"(?:\s*(?:\\times|\\cdot|\*)\s*10\^(?:\{-?\d+\}|\d))?"
_NUMBER = re.compile(
    r"((?:[A-Za-z](?:_\w)?\s*=)?)"  # x = 18 dollars
    r"(?:\s*(?:\\?\$|[€£¥]))?\s*"
    rf"([+-]?(?:\\[dt]?frac\{{\d+\}}\{{\d+\}}|(?:{_COUNT}){_POWER_OF_TEN}(?:/\d+)?))"
)
_FONT = re.compile(r"\\(?:text|textrm|mathrm|operatorname)\s*\{([^{}]*)\}")
_DEGREES = re.compile(r"\^(?:\{\\circ\}|\\circ)\s*[CF]\Z")
_PIECE = re.compile(r"[\s~]*([A-Za-z]+)\s*(?:\^\s*\{?(-?\d)\}?)?\.?[\s~]*(/|\\cdot|\*)?")
_MOST_PIECES = 4
_BLANK = re.compile(r"[\s~]|\\[,;: ]")


def without_unit(text: str, *, scaled: bool = True) -> str | None:
    """Return a number without the unit behind it, None for what is no number with or without one.

    `42 million` becomes `42*10^{6}`, or is no number where nothing may be `scaled`. A letter right
    behind the number, as in `2x`, is no unit.
    """
    text = _FONT.sub(r" \1", text.strip().strip("$"))
    match = _NUMBER.match(text)
    if match is None:
        return None
    rest = text[match.end() :].rstrip()
    if not rest.endswith(".."):
        rest = rest.removesuffix(".")  # of a sentence
    name, number = match.groups()
    if not rest.strip(" ~€£¥") or _DEGREES.fullmatch(rest.lstrip(" ~")):
        return name + number
    if _BLANK.match(rest) is None:
        return None
    words = _BLANK.sub(" ", rest).strip()
    first, _, others = words.partition(" ")
    exponent = _SCALES.get(first.lower()) if scaled else None
    if exponent is not None:
        number = f"{number}*10^{{{exponent}}}"
        words = others
    return name + number if not words or _is_unit(words) else None


def _is_unit(text: str) -> bool:
    """Say whether a text is a unit, such as `m^2`, `km/h` or `years old`."""
    position = 0
    for _ in range(_MOST_PIECES):
        match = _PIECE.match(text, position)
        if match is None or not _is_word_of_unit(match[1]):
            return False
        position = match.end()
        if position == len(text):
            return match[3] is None
    return False


def _is_word_of_unit(word: str) -> bool:
    if len(word) < 3:
        return word in _SHORT_UNITS
    lower = word.lower()
    return lower not in _NO_UNITS and lower not in _SCALES
