"""The advantages that a recorded group would have under another method or k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError
from maxatk.objectives import advantages
from maxatk.objectives.methods import as_method
from maxatk.objectives.objective import AdvantageScale


def advantages_under(group: Mapping[str, Any], method: str, k: int) -> list[float]:
    """Return a group's advantages under a row of `METHODS`, on-policy, for a loss that is a mean.

    Raises InvalidValueError for a method that needs another k, or answers that were not recorded.
    """
    samples = group["samples"]
    row = as_method(method)
    selects = row.credit_row.order is not None and "selection" in samples[0]
    if row.credit_row.needs_answers and "answer" not in samples[0]:
        raise InvalidValueError(f"method: {method!r} needs answers, which were not recorded")

    def column(name: str) -> npt.NDArray[Any]:
        return np.array([[sample[name] for sample in samples]])  # a batch of one group

    of_batch = advantages(
        column("reward").astype(np.float64),
        row,
        k,
        selection=column("selection") if selects else None,
        answers=column("answer") if row.credit_row.needs_answers else None,
    )
    factor = AdvantageScale("mean", row).factor(len(samples))
    values: list[float] = (factor * of_batch[0]).tolist()
    return values
