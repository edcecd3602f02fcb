"""How many problems show a difference: arrays in, numbers out.

A difference of two models is seen through two kinds of noise: a finite number of samples for each
problem, and models that differ more on some problems than on others. Both shrink with the number of
problems; more samples only help with the first.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.intervals import FloatArray
from maxatk.evaluation.statistics.student import student_quantile
from maxatk.objectives import pass_at_k

_STEPS = 60  # halvings of an interval of log odds


def pairs_needed(
    difference: float, deviation: float, *, level: float = 0.05, power: float = 0.8
) -> int:
    """Return how many pairs a paired t-test needs to find a mean difference.

    `deviation` is the standard deviation of the differences of single pairs: of problems, or of
    seeds. The test is two-sided at `level` and finds the difference with the chance `power`.
    n is ((t_{1 - level/2} + t_{power}) deviation / difference)^2 with n - 1 degrees of freedom.
    Raises InvalidValueError for a difference of 0, a negative deviation, and a level or power
    outside (0, 1).
    """
    if difference == 0 or not math.isfinite(difference):
        raise InvalidValueError(f"difference: must be finite and not 0, got {difference!r}")
    if not deviation >= 0:
        raise InvalidValueError(f"deviation: must not be negative, got {deviation!r}")
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise InvalidValueError(f"{name}: must lie between 0 and 1, got {value!r}")

    def wanted(pairs: int) -> float:
        quantiles = (student_quantile(chance, pairs - 1) for chance in (1 - level / 2, power))
        return float((sum(quantiles) * deviation / difference) ** 2)

    normal = sum(map(NormalDist().inv_cdf, (1 - level / 2, power)))
    pairs = max(2, math.ceil((normal * deviation / difference) ** 2))
    while wanted(pairs) > pairs:  # t needs a few more than the normal distribution
        pairs += 1
    return pairs


def problems_needed(
    difference: float,
    *,
    k: int,
    samples: int,
    chances: npt.ArrayLike,
    scatter: float = 0.8,
    level: float = 0.05,
    power: float = 0.8,
    seed: int = 0,
) -> int:
    """Return how many problems show that one model's pass@k is above another's by a difference.

    With rewards of 0 and 1 this is max@k.

    Args:
        difference: Of the two means of pass@k, such as 0.02.
        k: Of pass@k.
        samples: Drawn from either model for every problem.
        chances: (P,), the first model's chance to solve each of some typical problems, in [0, 1]:
            `correct` / `scored` of the problems in a results.json will do.
        scatter: How unevenly the second model gains: the standard deviation over problems of the
            change of a problem's log odds. 0 is the same change everywhere; 0.8 spreads the
            differences of problems as training did in the study of five seeds.
        level: Of the two-sided paired test.
        power: The chance to find the difference.
        seed: Of the changes of single problems.

    Raises InvalidValueError for a k above the samples, chances outside [0, 1], a negative scatter,
    a difference that no shift of the log odds makes, and as `pairs_needed`.
    """
    first = np.asarray(chances, dtype=np.float64)
    if first.ndim != 1 or not len(first) or not ((first >= 0) & (first <= 1)).all():
        raise InvalidValueError("chances: must be one number or more from 0 to 1, in one dimension")
    if not 1 <= k <= samples:
        raise InvalidValueError(f"k: must be from 1 to the {samples} samples, got {k!r}")
    if not scatter >= 0:
        raise InvalidValueError(f"scatter: must not be negative, got {scatter!r}")
    moves = scatter * np.random.default_rng(seed).standard_normal(len(first))
    second = _shifted(first, moves, difference, k)
    moved = _solved(second, k) - _solved(first, k)
    noise = _noise(first, k, samples) + _noise(second, k, samples)
    deviation = math.sqrt(float(moved.var() + noise.mean()))
    return pairs_needed(difference, deviation, level=level, power=power)


def _solved(chances: FloatArray, k: int) -> FloatArray:
    solved: FloatArray = 1 - (1 - chances) ** k
    return solved


def _shifted(first: FloatArray, moves: FloatArray, difference: float, k: int) -> FloatArray:
    """Return chances whose log odds are moved, and shifted until pass@k differs by a difference."""
    with np.errstate(divide="ignore", over="ignore"):
        odds = np.log(first) - np.log1p(-first) + moves

        def chances(shift: float) -> FloatArray:
            shifted: FloatArray = 1 / (1 + np.exp(-(odds + shift)))
            return shifted

        wanted = float(_solved(first, k).mean()) + difference
        low, high = -60.0, 60.0
        ends = [float(_solved(chances(shift), k).mean()) for shift in (low, high)]
        if not ends[0] <= wanted <= ends[1]:
            raise InvalidValueError(
                f"difference: pass@{k} of these problems is {wanted - difference:.3f} and can be "
                f"moved to between {ends[0]:.3f} and {ends[1]:.3f}, not by {difference!r}"
            )
        for _ in range(_STEPS):
            middle = (low + high) / 2
            above = float(_solved(chances(middle), k).mean()) > wanted
            low, high = (low, middle) if above else (middle, high)
        return chances((low + high) / 2)


def _noise(chances: FloatArray, k: int, samples: int) -> FloatArray:
    """Return the variance of the estimate of pass@k from so many samples, problem by problem."""
    correct = np.arange(samples + 1)
    estimates = pass_at_k(samples, correct, k)
    weights = _binomial(chances, samples)
    means = weights @ estimates
    variance: FloatArray = np.maximum(weights @ estimates**2 - means**2, 0.0)
    return variance


def _binomial(chances: FloatArray, samples: int) -> FloatArray:
    """Return the chance of every number of correct samples: (P, samples + 1)."""
    log_counts = [math.lgamma(samples + 1)] * (samples + 1)
    for c in range(samples + 1):
        log_counts[c] -= math.lgamma(c + 1) + math.lgamma(samples - c + 1)
    inside = np.clip(chances, 1e-300, 1 - 1e-16)[:, None]
    correct = np.arange(samples + 1)
    logs = np.array(log_counts) + correct * np.log(inside) + (samples - correct) * np.log1p(-inside)
    weights: FloatArray = np.exp(logs)
    return weights
