"""Histograms whose bins can be merged, as results hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.evaluation.results import Histogram

_MOST_BINS = 128
_SMALLEST_RANGE = 1e-3  # without one, values that are all 0 would have bins of no width


def histogram(values: npt.ArrayLike) -> Histogram:
    """Return the histogram of non-negative values; what rounding has put below 0 counts as 0.

    The bins are as wide as the smallest power of two of which `_MOST_BINS` reach the largest value.
    So the bins of any two histograms can be merged: those of one are a whole number of the other's.
    """
    numbers = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    largest = max(float(numbers.max(initial=0.0)), _SMALLEST_RANGE)
    exponent = np.ceil(np.log2(largest / _MOST_BINS))
    width = float(2.0**exponent)
    bin_of_number = (numbers / width).astype(np.int64)
    counts = np.bincount(bin_of_number)
    return Histogram(width=width, counts=tuple(counts.tolist()))


def merged_histogram(parts: Sequence[Histogram]) -> Histogram:
    """Return the histogram over the values of all parts, in bins of the widest of them."""
    width = max(part.width for part in parts)
    counts = Counter[int]()
    for part in parts:
        bins_in_one = round(width / part.width)  # a power of two
        for place, count in enumerate(part.counts):
            counts[place // bins_in_one] += count
    return Histogram(width, tuple(counts[place] for place in range(max(counts) + 1)))
