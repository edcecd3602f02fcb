"""Comparison rules: does what a program printed match what was expected?

The program controls that text: each rule takes linear time, and splits or converts no more of it
than the expected text has parts.
"""

from __future__ import annotations

import ast
import decimal
import math
import re
from collections.abc import Callable

from maxatk.check import one_of
from maxatk.verifier.encoded import same_value
from maxatk.verifier.inside import values
from maxatk.verifier.python_source import with_hexadecimal_integers

ComparisonRule = Callable[[bytes, str], bool]

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_MAX_NUMBER = 4000  # characters of a number that is converted
_MOST_DIGITS = 50_000  # of an integer in a printed literal
_LIST_DEPTH = {"lcb": 1, "apps": 2}  # how deep a tuple still counts as a list
_MIN_LITERAL = 1 << 16  # bytes that a literal may always have


def tokens(actual: bytes, expected: str) -> bool:
    """Compare white-space separated tokens, as text or as plain ASCII numbers (the default rule).

    An expected integer is equal to itself, and to a number with a point or an exponent within an
    absolute error of 1e-6. Other numbers are equal within an absolute or relative error of 1e-6.
    """
    expected_tokens = expected.encode("utf-8", "replace").split()
    # What the actual text has beyond as many tokens makes one part more.
    actual_tokens = actual.split(None, len(expected_tokens))
    if actual_tokens == expected_tokens:
        return True
    if len(actual_tokens) != len(expected_tokens):
        return False
    pairs = zip(actual_tokens, expected_tokens, strict=True)
    return all(a == b or _close(_text(a), _text(b)) for a, b in pairs)


def lcb(actual: bytes, expected: str) -> bool:
    """Compare as LiveCodeBench does: line by line, as text or all tokens as exact decimal numbers.

    Both sides and their lines are stripped (source: LiveCodeBench, testing_util.py).
    """
    expected_lines = expected.strip().split("\n")
    actual_lines = _text(actual).strip().split("\n", len(expected_lines))
    if len(actual_lines) != len(expected_lines):
        return False
    return all(
        _equal_lines(a.strip(), b.strip())
        for a, b in zip(actual_lines, expected_lines, strict=True)
    )


def deepmind(actual: bytes, expected: str) -> bool:
    """Compare lower-cased tokens, all numbers as doubles within 1e-5, whatever their size.

    So 10^17 equals 10^17 + 1, which are one double. (Source: google-deepmind/code_contests,
    execution/tester_sandboxer.cc.)
    """
    expected_tokens = expected.lower().split()
    actual_tokens = _text(actual).lower().split(None, len(expected_tokens))
    if len(actual_tokens) != len(expected_tokens):
        return False
    return all(
        a == b or _within(a, b, 1e-5) for a, b in zip(actual_tokens, expected_tokens, strict=True)
    )


def apps(actual: bytes, expected: str) -> bool:
    """Compare as `tokens`; of calls a returned tuple and tuples inside a list count as lists.

    (Source: hendrycks/apps, eval/testing_util.py.)
    """
    return tokens(actual, expected)


def literal(actual: bytes, expected: str) -> bool:
    """Compare printed values, such as converted MBPP's: equal when stripped or as literals."""
    actual_text = _text(actual).strip()
    expected_text = expected.strip()
    if actual_text == expected_text:
        return True
    if len(actual_text) > max(_MIN_LITERAL, 2 * len(expected_text)):
        return False  # parsing takes much memory, and no value equal to `expected` is that long
    try:
        return same_value(_encoded_text(actual_text), _encoded_text(expected_text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def checker(actual: bytes, expected: str) -> bool:  # noqa: ARG001  (the checker has seen it)
    """Say whether a problem's own checker program, which prints `actual`, printed the number 1.

    (Source: the generated checkers of open-r1/codeforces, `checker.py input correct solution`.)
    """
    return _within(_text(actual).strip(), "1", 1e-9)


COMPARE: dict[str, ComparisonRule] = {
    "tokens": tokens,
    "lcb": lcb,
    "deepmind": deepmind,
    "apps": apps,
    "literal": literal,
    "checker": checker,
}
"""Name -> rule."""


def equal_values(actual: bytes, expected: object, compare: str, *, tolerance: float = 0.0) -> bool:
    """Compare the encoded value of a call with the expected one, as `==` does on plain builtins.

    Under `lcb` and `apps` a tuple counts as a list, because expected values come from JSON, and
    under `apps` also one inside a list. Floats may differ by `tolerance`, absolute or relative.
    """
    list_depth = _LIST_DEPTH.get(compare, 0)
    try:
        return same_value(
            actual, values.encode(expected), tolerance=tolerance, list_depth=list_depth
        )
    except ValueError:  # a literal that cannot cross, such as an ellipsis
        return False


def rule(name: str) -> ComparisonRule:
    """Return the rule of that name; raises InvalidValueError for an unknown one."""
    one_of("compare", name, COMPARE)
    return COMPARE[name]


def _encoded_text(text: str) -> bytes:
    """Return the encoding of the literal in a text."""
    readable = with_hexadecimal_integers(text, most_digits=_MOST_DIGITS)
    return _encoded_literal(ast.parse(readable, mode="eval").body)


def _encoded_literal(node: ast.expr) -> bytes:
    """Return the encoding of a Python literal, for which no set and no dict is built."""
    match node:
        case ast.Tuple(elts=parts):
            tag = b"t"
        case ast.List(elts=parts):
            tag = b"l"
        case ast.Set(elts=parts):
            tag = b"S"
        case ast.Dict(keys=keys, values=held):
            tag = b"d"
            parts = [part for pair in zip(keys, held, strict=True) for part in pair if part]
        case ast.Call(func=ast.Name("set"), args=[], keywords=[]):
            return values.encode(set())
        case _:
            return values.encode(ast.literal_eval(node))
    return values.container(tag, [_encoded_literal(part) for part in parts])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _close(a: str, b: str) -> bool:
    """Say whether `a` is a number within 1e-6 of the expected `b`; two integers must be equal."""
    if _INTEGER.match(b):
        if _INTEGER.match(a):
            return _plain_integer(a) == _plain_integer(b)
        return _near_integer(a, b)
    numbers = _numbers(a, b)
    return numbers is not None and math.isclose(*numbers, rel_tol=1e-6, abs_tol=1e-6)


def _near_integer(number: str, integer: str) -> bool:
    """Say whether a number differs from an integer by at most 1e-6, exactly at any size.

    A relative error would make a rounded quotient of a large integer right.
    """
    if max(len(number), len(integer)) > _MAX_NUMBER or not _NUMBER.match(number):
        return False
    millionths = int(integer) * 10**6
    try:  # Decimals are compared exactly, while their differences are rounded.
        value = decimal.Decimal(number)
    except decimal.InvalidOperation:  # an exponent of 19 digits
        return False
    lowest = decimal.Decimal(f"{millionths - 1}e-6")
    highest = decimal.Decimal(f"{millionths + 1}e-6")
    return lowest <= value <= highest


def _plain_integer(text: str) -> str:
    """Return an integer without a plus and leading zeros, as text: it may have any length."""
    digits = text.lstrip("+-").lstrip("0")
    return f"-{digits}" if digits and text.startswith("-") else digits


def _within(a: str, b: str, tolerance: float) -> bool:
    """Say whether two numbers differ by less than a tolerance."""
    numbers = _numbers(a, b)
    return numbers is not None and abs(numbers[0] - numbers[1]) < tolerance


def _numbers(a: str, b: str) -> tuple[float, float] | None:
    """Return two finite numbers as doubles, None where one of the texts is none."""
    if max(len(a), len(b)) > _MAX_NUMBER or not (_NUMBER.match(a) and _NUMBER.match(b)):
        return None
    first = float(a)
    second = float(b)
    if not (math.isfinite(first) and math.isfinite(second)):  # 1e999: all such would be equal
        return None
    return first, second


def _equal_lines(actual_line: str, expected_line: str) -> bool:
    if actual_line == expected_line:
        return True
    expected_tokens = expected_line.split()
    actual_tokens = actual_line.split(None, len(expected_tokens))
    if len(actual_tokens) != len(expected_tokens):
        return False
    try:
        pairs = zip(actual_tokens, expected_tokens, strict=True)
        return all(decimal.Decimal(a) == decimal.Decimal(b) for a, b in pairs)
    except decimal.InvalidOperation:
        return False
