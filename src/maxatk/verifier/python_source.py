"""Whether a text is a Python program, and how much of it is."""

from __future__ import annotations

import ast
import decimal
import re
import sys
import warnings

FILE = "<truncated program>"
LONGEST = 1 << 14
"""Characters of a text that is parsed; what is longer is left as it is."""
MOST_ATTEMPTS = 32
"""How often parts of one text are parsed."""

# A string, which never fails to match, or an integer that Python reads only where it is told to.
_STRING_OR_LONG_INTEGER = re.compile(
    r"""'(?:\\.?|[^'\\])*(?:'|\Z)|"(?:\\.?|[^"\\])*(?:"|\Z)"""
    r"""|(?<![\w.])(?P<integer>[1-9][0-9]{3999,})(?![\w.])""",
    re.DOTALL,
)

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(FILE))


def is_program(text: str) -> bool:
    """Say whether Python can parse a text and finds more in it than words."""
    tree = parsed(text)
    return tree is not None and any(not _is_prose(node) for node in tree.body)


def _is_prose(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, (ast.Call, ast.Await))
    return isinstance(node, ast.AnnAssign) and node.value is None  # such as "Note: this"


def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a text; None for one that is too long or no Python."""
    if len(text) > LONGEST:
        return None
    try:
        return ast.parse(text, filename=FILE)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def longest_program(text: str) -> str:
    """Return the longest prefix of whole lines that Python can parse, or the text without one.

    No prefix that holds the line of a syntax error can be parsed, so that each attempt ends before
    the error of the last one. Attempts and characters are bounded.
    """
    if len(text) > LONGEST:
        return text
    lines = text.split("\n")
    for _ in range(MOST_ATTEMPTS):
        while lines and not lines[-1].strip():
            lines.pop()
        if not lines:
            break
        try:
            ast.parse("\n".join(lines), filename=FILE)
        except SyntaxError as error:
            del lines[min((error.lineno or 1) - 1, len(lines) - 1) :]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            return "\n".join(lines) + "\n"
    return text


def with_hexadecimal_integers(text: str, *, most_digits: int = sys.maxsize) -> str:
    """Return a literal with its long integers in hexadecimal digits, which Python always reads.

    Those of more than `most_digits`, whose conversion takes long, stay as they are.
    """

    def shortened(part: re.Match[str]) -> str:
        digits = part["integer"]
        if digits is None or len(digits) > most_digits:
            return part[0]
        return hex(int(decimal.Decimal(digits)))

    return _STRING_OR_LONG_INTEGER.sub(shortened, text)
