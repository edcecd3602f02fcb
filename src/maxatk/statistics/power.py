"""How many problems or seeds show a difference: arrays in, numbers out."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from maxatk.check import at_least, is_finite, is_whole, require
from maxatk.errors import InvalidValueError, counted
from maxatk.objectives import pass_at_k
from maxatk.objectives.checks import as_floats
from maxatk.statistics.intervals import FloatArray, t_quantile
from maxatk.statistics.significance import fewest_problems

_LEVEL = 0.05
_QUANTILES = (1 - _LEVEL / 2, 0.8)  # a two-sided test at the level, and its power
_SCATTER = 0.8  # of log odds: spreads differences as training did in the study of five seeds
_MOST_PAIRS = 10**12  # beyond which quantiles of t, as exact as they are, no longer say how many
_FARTHEST = 60.0  # a shift of log odds that leaves no chance but 0 and 1


def pairs_needed(difference: float, deviation: float) -> int:
    """Return how many pairs a two-sided t-test at 0.05 needs to find a mean difference.

    `deviation` is that of the differences of single pairs: of problems, or of seeds. n is
    ((t_{0.975} + t_{0.8}) deviation / difference)^2 with n - 1 degrees of freedom: the chance to
    find it is 0.8. Raises InvalidValueError for a difference of 0, a deviation that is negative or
    not finite, and a difference so much smaller than it that 10^12 pairs are too few.
    """
    _check_difference(difference)
    at_least("deviation", deviation, 0)
    require(is_finite(deviation), "deviation", "finite", deviation)
    quantiles_of_normal = sum(map(NormalDist().inv_cdf, _QUANTILES))
    least = quantiles_of_normal * deviation / math.sqrt(_MOST_PAIRS)
    allowed = f"{least:.3g} or more in size, which {_MOST_PAIRS:,} pairs show"
    require(abs(difference) >= least, "difference", allowed, difference)

    def needed_by_t(pairs: int) -> float:
        quantiles = (float(t_quantile(chance, pairs - 1)) for chance in _QUANTILES)
        return float((sum(quantiles) * deviation / difference) ** 2)

    needed_by_normal = (quantiles_of_normal * deviation / difference) ** 2
    # t needs some more than the normal distribution: twice as many until they do, then the fewest.
    enough = max(2, math.ceil(needed_by_normal))
    too_few = enough - 1
    while needed_by_t(enough) > enough:
        too_few = enough
        enough *= 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if needed_by_t(middle) > middle:
            too_few = middle
        else:
            enough = middle
    return enough


def problems_needed(difference: float, *, k: int, samples: int, chances: npt.ArrayLike) -> int:
    """Return how many problems show a difference of one model's mean pass@k to another's.

    Either model draws so many `samples` of every problem. `chances` (P,) are the first model's to
    solve each of some typical problems, in [0, 1]: `correct` / `scored` of a results.json will do.

    The answer is `pairs_needed` of the difference for the deviation of the paired differences of
    single problems. Their variance has two parts: true differences of pass@k vary over problems,
    and both estimates of a problem have the noise of their samples,

        Var_p[(1 - p)^k - (1 - q)^k] + E_p[noise(p) + noise(q)],

    for the first model's chance p and the second's q to solve a problem. The second's are `_moved`.
    It is never below six, the fewest problems with which `paired_difference` has a p of 0.05.

    Raises InvalidValueError for a k above the samples, chances outside [0, 1], a
    difference that no shift of the log odds makes, and as `pairs_needed`.
    """
    _check_difference(difference)
    of_first = as_floats("chances", chances)
    is_row = of_first.ndim == 1 and len(of_first) > 0
    fits = is_row and bool(((of_first >= 0) & (of_first <= 1)).all())
    require(fits, "chances", "one number or more from 0 to 1, in one dimension", chances)
    require(is_whole(samples, 1), "samples", "an integer of 1 or more", samples)
    require(is_whole(k, 1) and k <= samples, "k", f"from 1 to the {counted(samples, 'sample')}", k)
    of_second = _moved(of_first, difference, k)
    true_differences = (1 - of_first) ** k - (1 - of_second) ** k
    noise = _noise(of_first, k, samples) + _noise(of_second, k, samples)
    variance = float(true_differences.var() + noise.mean())
    return max(pairs_needed(difference, math.sqrt(variance)), fewest_problems(_LEVEL))


def _check_difference(difference: float) -> None:
    holds = is_finite(difference) and difference != 0
    require(holds, "difference", "finite and not 0", difference)


def _moved(chances: FloatArray, difference: float, k: int) -> FloatArray:
    """Return the chances (P,) of a model whose mean pass@k is higher by a difference.

    Each log odds has moved by a shift that is the same for all problems, and by a scatter that is
    not: log(q / (1 - q)) = log(p / (1 - p)) + scatter + shift. The shift is the one that makes
    mean[(1 - p)^k] - mean[(1 - q)^k] the difference.
    """
    from scipy import optimize, special

    scatter = _SCATTER * np.random.default_rng(0).standard_normal(len(chances))
    odds = special.logit(chances) + scatter
    unsolved = float(((1 - chances) ** k).mean())

    def gain(shift: float) -> float:
        moved = special.expit(odds + shift)
        return unsolved - float(((1 - moved) ** k).mean())

    low = gain(-_FARTHEST)
    high = gain(_FARTHEST)
    if not low <= difference <= high:
        solved = 1 - unsolved
        raise InvalidValueError(
            f"difference: pass@{k} of these problems is {solved:.3f} and can be moved to between "
            f"{solved + low:.3f} and {solved + high:.3f}, not by {difference!r}"
        )
    shift = optimize.brentq(lambda shift: gain(shift) - difference, -_FARTHEST, _FARTHEST)
    moved: FloatArray = special.expit(odds + shift)
    return moved


def _noise(chances: FloatArray, k: int, samples: int) -> FloatArray:
    """Return the variance of the estimate of pass@k from so many samples of a problem: (P,).

    Of the samples c are correct with the binomial chance b(c) of the problem's chance to be solved,
    and c of them give the estimate e(c): the variance is sum_c b(c) e(c)^2 - (sum_c b(c) e(c))^2.
    """
    from scipy import stats

    correct = np.arange(samples + 1)
    estimates = pass_at_k(samples, correct, k)
    binomial_chances = stats.binom.pmf(correct, samples, chances[:, None])  # (P, samples + 1)
    means = binomial_chances @ estimates
    mean_squares = binomial_chances @ estimates**2
    variance: FloatArray = np.maximum(mean_squares - means**2, 0.0)  # below 0 by rounding alone
    return variance
