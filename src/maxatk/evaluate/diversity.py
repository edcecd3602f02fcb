"""How different the programs of a problem are: fingerprints of their syntax trees, and counts."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import warnings
from collections.abc import Iterable

import numpy as np

_FILE = "<sampled program>"
_LONGEST = 1 << 16  # characters: what is longer is compared as text

# A program of a model may hold an invalid escape; the warning would be about this file name alone.
warnings.filterwarnings("ignore", module=re.escape(_FILE))


def program_key(program: str) -> str:
    """Return a fingerprint, 16 hexadecimal digits, that is equal for programs of one syntax tree.

    Layout, comments, redundant parentheses and the kind of quotes do not count; names and
    constants do. What Python cannot parse, and anything above 65,536 characters, is compared as
    text with blank lines and trailing spaces removed.
    """
    normal = None
    if len(program) <= _LONGEST:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            normal = "tree " + ast.dump(ast.parse(program, filename=_FILE))
    if normal is None:
        lines = (line.rstrip() for line in program.splitlines())
        normal = "text " + "\n".join(line for line in lines if line)
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def distribution_entropy(counts: Iterable[int]) -> float:
    """Return the entropy, in nats, of the distribution with these counts: 0 for one kind alone."""
    numbers = np.array([count for count in counts if count], dtype=np.float64)
    if len(numbers) == 0:
        return 0.0
    shares = numbers / numbers.sum()
    return float(max(0.0, -(shares * np.log(shares)).sum()))
