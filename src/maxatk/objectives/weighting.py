"""What a method weighs: the factor that it puts on the gradient of a prompt's success rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives.advantage import advantages
from maxatk.objectives.checks import FloatArray, as_floats, as_k
from maxatk.objectives.methods import Method, as_method
from maxatk.objectives.subsets import shares_of_draws


def weighting(method: str | Method, n: int, k: int = 4, rates: npt.ArrayLike = 0.5) -> FloatArray:
    """Return E[sum_i A_i grad log pi(y_i)] / grad p for 0/1 rewards, in the shape of `rates`.

    `rates` are success rates p in [0, 1] of a prompt with `n` samples. With right(c) and wrong(c)
    the advantages of a right and a wrong sample where c of n are right, and C ~ Bin(n - 1, p),
    the factor is n E[right(C + 1) - wrong(C)]: exact, on-policy. For max@k it is k (1 - p)^(k-1).

    Raises InvalidValueError for rates outside [0, 1] and what `advantages` refuses.
    """
    row, size = as_method(method), as_k(n, field="n")
    p = as_floats("rates", rates)
    if not ((p >= 0) & (p <= 1)).all():
        raise InvalidValueError(f"rates: must be from 0 to 1, got {p[~((p >= 0) & (p <= 1))][0]}")
    passed = np.tri(size + 1, size, -1)  # row c has c ones, which come first
    own = advantages(passed, row, k, answers=passed if row.kind.needs_answers else None)
    gaps = own[1:, 0] - own[:-1, -1]
    factor: FloatArray = size * (shares_of_draws(size - 1, p.ravel()) @ gaps)
    return factor.reshape(p.shape)
