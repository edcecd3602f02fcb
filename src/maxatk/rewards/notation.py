"""Answers as math-verify reads them: signs of Unicode in LaTeX, and what stands in a tag."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from maxatk.rewards.units import without_unit

_ANSWER = re.compile(r"<answer>", re.IGNORECASE)
_END_OF_ANSWER = re.compile(r"</answer>", re.IGNORECASE)

_SIGNS = {
    "\N{MINUS SIGN}": "-",
    "\N{DEGREE SIGN}": r"^{\circ}",
    "\N{INFINITY}": r"\infty ",
    "\N{MIDDLE DOT}": r"\cdot ",
    "\N{DOT OPERATOR}": r"\cdot ",
    "\N{DIVISION SIGN}": r"\div ",
}
# As wide as a Chinese character: digits, letters, brackets and commas.
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SIGN = re.compile("[" + "".join(_SIGNS) + "]")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]"}
# Of a number, a letter or what stands in brackets; before a macro the sign alone is replaced.
_ROOT = re.compile(r"([√∛])\s*(?:(\d+(?:\.\d+)?|[A-Za-z])|\(([^()]*)\)|\{([^{}]*)\})")
_FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8),
    "⅞": (7, 8),
}  # fmt: skip
_FRACTION = re.compile(rf"(?<![\d.,])(?:(\d{{1,9}}) ?)?([{''.join(_FRACTIONS)}])")
# 5 1/2 with a proper fraction: `1 4/2` and `5 1/2/3` are no mixed numbers.
_MIXED = re.compile(r"(?<![\d.,/^_])(\d{1,9}) (\d{1,9})/(\d{1,9})(?![\d/^]|[.,]\d)")
# 12\,345, and 12 345 with a blank of any width; `1 2` and `x^2 100` are two numbers.
_THIN_SPACE = re.compile(r"(?<=\d)\\[,;:! ](?=\d{3}(?!\d))")
_BLANK = "[ ~\u00a0\u2009\u202f]"
_GROUPS = re.compile(rf"(?<![\d.,^_])(?<!\d{_BLANK})\d{{1,3}}(?:{_BLANK}\d{{3}})+(?!{_BLANK}?\d)")
_UNICODE_GROUPS = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")  # in prose
_GROUP_END = re.compile(_BLANK)
_ABOUT = re.compile(r"\A\s*≈\s*")

# The ends of formulas in prose.
_DELIMITER = re.compile(r"((?<!\\)\$+|\\[()\[\]])")
# "Answer:42", "Answer:**42**", "**Answer:**42" and "####42" of GSM8K.
_COLON = re.compile(r"(?:(?<=[^\W\d_])|(?<=\*))(:\*{0,3})(?=[-+(]?\d)")
# A number right behind a letter of a script without blanks, as in Chinese, or of another language.
_BEHIND_LETTER = re.compile("(?<=[\u0400-\u1fff\u3040-\u9fff\uac00-\ud7af])(?=[-+]?[0-9])")
_BARE_FRACTION = re.compile(r"(?<![\w.)\]}])\.(?=\d)")  # math-verify reads no -.5 in words
_FULL_STOP = "\N{IDEOGRAPHIC FULL STOP}"  # a fraction before it is not read
_HASHES = re.compile(r"(?<!#)(#{2,})(?=[-+]?\d)")
_QUOTES = re.compile("[`\"'≈]")
_BRACKETS = re.compile(r"\A\s*\(([-+]?\d+(?:\.\d+)?)\)\s*\Z")  # of one number
# Markdown around all that a tag holds, and asterisks around a number in prose.
_EMPHASIS = re.compile(r"\A\s*(\*{1,3}|`)([^*`]+)\1\s*\Z")
_NUMERAL = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?"
_COUNT = rf"[-+]?\$?{_NUMERAL}"
_END = r"(?![\w^*/%])(?![.,]\d)"
_EMPHASISED = re.compile(rf"(?<![\w*`)])(?<!\d )\*({_COUNT})\*(?![\w*`(])")
# The sign of a number and not of a sum; `\$` is money.
_PLUS = re.compile(r"(?<![^\s*])(?<![\d)] )(?<!\b[A-Za-z] )\+(?=\d)|\\\$(?=\d)")
_TIMES = re.compile(r"(?<=\d) ?× ?10(?:\^|([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))")
_FLOAT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d{1,4})(?!\w)")
_OR = re.compile(rf"(?<![\w./,^$*(-]){_COUNT}(?: or {_COUNT})+{_END}")
# 41 cm or 43 cm, also with the numbers in signs of a formula; 42 cm or 0.42 m may be one length.
_UNIT = r" ?(?P<unit>[A-Za-z]+)"
_OR_UNIT = re.compile(rf"(?<![\w./,^$*(-]){_COUNT}{_UNIT}(?: or {_COUNT} ?(?P=unit))+(?!\w)")
_OR_FORMULA = re.compile(rf"\${_COUNT}\${_UNIT}(?: or \${_COUNT}\$ ?(?P=unit))+(?!\w)")
# Several numbers where one is expected: the whole text, or behind "the answer is" up to an end.
_LIST = re.compile(
    r"(\A\s*|[Aa]nswers?(?: is| are)?:? +)"
    rf"({_COUNT}(?:(?:, (?:and )?| and ){_COUNT})+)(?=\.?\s*(?:\Z|\n))"
)
_JOINT = re.compile(r",? (?:and|or) |, ")
# What the answer is not, as in "42, not 41", by itself and in no term; not behind `or`.
_ALONE = rf"[-+]?{_NUMERAL}"
_NOT = re.compile(
    r"(?<![\w\\-])(?<!or )([Nn]ot) "
    rf"(?:\${_ALONE}\$|\\?\${_ALONE}(?=\.?\s*(?:\Z|\n))|{_ALONE}{_END}(?! ?[-+*^=×<>]))"
)
_COLORED = re.compile(r"\\textcolor\s*\{[^{}]*\}|\\underline(?=\s*\{)")
_ANNOUNCED = re.compile(r"\A\s*\\text\s*\{\s*[Aa]nswer:\s*\}")

# A choice before its number, as in \textbf{(B)}\ 42.
_CHOICE = re.compile(
    r"\A\s*\\(?:text|textbf|mathrm|mathbf)\s*\{\s*\([A-J]\)\s*\}(?:\\[ ,;:!]|\\q?quad|[\s~])*(?=.)"
)
_FONT = re.compile(r"\\(?:text|textrm|mathrm)\s*\{([^{}]*)\}")
_BOX_WITHOUT_BRACES = re.compile(r"\\(?:boxed|fbox)(?:\s*\{\s*\}|(?=\d))")  # \boxed7, and \boxed{}

_RELATION = re.compile(r"[<>≠≤≥]|\\(?:neq?|not|geq?|leq?|geqslant|leqslant|gt|lt)(?![A-Za-z])")


def is_bound(text: str, gold: str) -> bool:
    r"""Say whether an answer begins as `\geq 2` does and the expected one has no such sign.

    math-verify reads the number alone.
    """
    begins = _RELATION.match(text.lstrip(" $"))
    return begins is not None and _RELATION.search(gold) is None


def formula(text: str) -> str:
    """Return a formula with its signs of Unicode as LaTeX, and its thousands not set apart."""
    text = _COLORED.sub("", text.replace(r"\varnothing", r"\emptyset"))
    text = _THIN_SPACE.sub("", text)
    text = _GROUPS.sub(lambda match: _GROUP_END.sub("", match[0]), text)
    text = _MIXED.sub(_improper, text)
    if text.isascii():
        return text
    text = _ABOUT.sub("", text.translate(_WIDE))
    text = _FRACTION.sub(lambda match: r"\frac{{{}}}{{{}}}".format(*_parts(match)), text)
    text = _ROOT.sub(_root, text)
    for root, macro in _ROOTS.items():
        text = text.replace(root, macro)
    text = _RAISED_RUN.sub(lambda match: f"^{{{match[0].translate(_RAISED)}}}", text)
    return _SIGN.sub(lambda match: _SIGNS[match[0]], text)


def number_or_formula(text: str) -> str:
    """Return a formula, and of a number with its unit, or behind its choice, the number."""
    text = formula(_CHOICE.sub("", text))
    return without_unit(text) or text


def gold_formula(text: str) -> tuple[str, bool]:
    """Return an expected answer as a formula, and whether it is one number.

    A number is without its unit. `42 million` stays as it is, which math-verify reads as 42.
    """
    text = formula(text)
    number = without_unit(text, scaled=False)
    return number or text, number is not None


def prose(text: str, read: Callable[[str], str] = formula) -> str:
    """Return an answer in words, with formulas in LaTeX and a blank before what is the answer.

    `read` is what makes LaTeX of a formula.
    """
    text = with_leading_zeros(_BOX_WITHOUT_BRACES.sub(" ", text))
    text = _NOT.sub(r"\1", text)
    text = _OR_FORMULA.sub(_listed_without_units, text)
    pieces = []
    in_formula = False
    for index, piece in enumerate(_DELIMITER.split(text)):
        if index % 2:
            in_formula = not in_formula if piece.startswith("$") else piece in (r"\(", r"\[")
            pieces.append(piece)
        elif in_formula:
            pieces.append(read(piece))
        else:
            piece = _in_ascii(_UNICODE_GROUPS.sub("", piece)).replace(_FULL_STOP, ". ")
            piece = piece.replace("\N{MINUS SIGN}", "-").translate(_WIDE)
            piece = _BEHIND_LETTER.sub(" ", _COLON.sub(r"\1 ", piece))
            piece = _MIXED.sub(_improper, _HASHES.sub(r"\1 ", piece))
            pieces.append(_with_lists(_with_powers(_without_signs(piece))))
    return "".join(pieces)


def content_of(text: str) -> str:
    """Return what a box or a tag holds without Markdown, a last comma and the word "Answer:"."""
    text = _ANNOUNCED.sub("", _EMPHASIS.sub(r"\2", text)).strip()
    text = _NOT.sub(r"\1", text)
    if text.endswith(",") and not text.endswith("\\,"):
        text = text[:-1]
    hedged = _OR_UNIT.fullmatch(" ".join(_FONT.sub(r" \1 ", text).split()))
    if hedged:
        return _listed_without_units(hedged).strip("$")
    listed = _LIST.fullmatch(text)
    return ", ".join(_JOINT.split(listed[2])) if listed else text


def _without_signs(text: str) -> str:
    r"""Return words without asterisks around a number, the plus of a number and `\$`."""
    return _PLUS.sub("", _EMPHASISED.sub(r"\1", text))


def with_leading_zeros(text: str) -> str:
    """Return words in which .5 is written as 0.5."""
    return _BARE_FRACTION.sub("0.", text)


def _with_powers(text: str) -> str:
    """Return words in which 1.2e5 and 1.2 × 10⁵ are written as 1.2*10^5."""
    text = _TIMES.sub(lambda match: f"*10^{(match[1] or '').translate(_RAISED)}", text)
    return _FLOAT.sub(lambda match: f"{match[1]}*10^{int(match[2])}", text)


def _with_lists(text: str) -> str:
    """Return words in which `41 or 43` is one formula: of it math-verify reads one number."""
    text = _LIST.sub(lambda match: match[1] + _listed(match[2]), text)
    text = _OR_UNIT.sub(_listed_without_units, text)
    return _OR.sub(lambda match: _listed(match[0]), text)


def _listed(text: str) -> str:
    values = [value.replace("$", "").replace(",", "") for value in _JOINT.split(text)]
    if len({_value(value) for value in values}) == 1:
        return text  # 1/2 or 0.5
    return f"${', '.join(values)}$"


def _listed_without_units(hedged: re.Match[str]) -> str:
    values = [value.partition(hedged["unit"])[0] for value in hedged[0].split(" or ")]
    return _listed(" or ".join(value.strip("$ ") for value in values))


def are_different_numbers(texts: Iterable[str]) -> bool:
    """Say whether all texts are numbers, and not the same one: a hedge between them."""
    try:
        return len({_value(text) for text in texts}) > 1
    except ValueError:
        return False


def _value(text: str) -> Fraction | str:
    try:
        numerator, _, denominator = text.partition("/")
        return Fraction(numerator) / Fraction(denominator or 1)
    except ZeroDivisionError:
        return text


def bare_prose(text: str) -> str:
    """Return an answer in words without quotes and brackets, in which no number was found."""
    return _BRACKETS.sub(r"\1", _QUOTES.sub(" ", text))


def _in_ascii(text: str) -> str:
    """Return words with signs such as `½` as 1/2: of 5½ math-verify reads the 5."""
    return _FRACTION.sub(lambda match: "{}/{}".format(*_parts(match)), text)


def in_answer_tag(text: str) -> str | None:
    """Return what the last tag `<answer>` with any content holds, None without one."""
    for piece in reversed(_ANSWER.split(text)[1:]):
        content = _END_OF_ANSWER.split(piece, maxsplit=1)[0].strip()
        if content:
            return content
    return None


def _parts(match: re.Match[str]) -> tuple[int, int]:
    """Return numerator and denominator of a number that ends in a sign such as `½`."""
    numerator, denominator = _FRACTIONS[match[2]]
    return int(match[1] or 0) * denominator + numerator, denominator


def _improper(match: re.Match[str]) -> str:
    """Return a mixed number as one fraction, 11/2 for 5 1/2: of it math-verify reads a part."""
    integer_part, numerator, denominator = (int(part) for part in match.groups())
    if not 0 < numerator < denominator:
        return match[0]
    return f"{integer_part * denominator + numerator}/{denominator}"


def _root(match: re.Match[str]) -> str:
    return f"{_ROOTS[match[1]]}{{{match[2] or match[3] or match[4] or ''}}}"
