"""Student's t distribution with whole degrees of freedom, where SciPy may be absent."""

from __future__ import annotations

import math

from maxatk.errors import InvalidValueError

_LARGEST = 1e12


def student_p(t: float, df: int) -> float:
    """Return the chance that a t variable with `df` degrees of freedom is at least |t| from 0.

    Two-sided. Source: the finite sums 26.7.3 and 26.7.4 of Abramowitz and Stegun. Raises
    InvalidValueError for fewer than one degree of freedom.
    """
    if df < 1:
        raise InvalidValueError(f"df: must be at least 1, got {df!r}")
    angle = math.atan2(abs(t), math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = df % 2
    term = cosine if odd else 1.0
    terms = [term] if df > 1 else []
    for j in range(2 + odd, df - 1, 2):
        term *= cosine * cosine * (j - 1) / j
        terms.append(term)
    inside = sine * math.fsum(terms)
    return max(0.0, 1.0 - (2 / math.pi * (angle + inside) if odd else inside))


def student_quantile(chance: float, df: int) -> float:
    """Return the t that a t variable with `df` degrees of freedom stays below with a chance.

    Found by halving an interval. Raises InvalidValueError for a chance outside (0, 1), and as
    `student_p`.
    """
    if not 0 < chance < 1:
        raise InvalidValueError(f"chance: must lie between 0 and 1, got {chance!r}")
    two_sided = 2 * min(chance, 1 - chance)
    low, high = 0.0, 1.0
    while student_p(high, df) > two_sided and high < _LARGEST:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, df) > two_sided else (low, middle)
    return math.copysign((low + high) / 2, chance - 0.5)
