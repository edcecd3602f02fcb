"""The scores that select, out of what a reward function returned beside the reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxatk.engines.verl.options import WHERE
from maxatk.errors import InvalidValueError

_RETURNED = "reward_extra_info"  # verl's name for what the reward function returned


def selection_scores(extra: Sequence[Any], key: str) -> np.ndarray:
    """Return the value of `key` of every row (N,), float64, NaN where a row has none.

    `extra` holds verl's `extra_fields` of every row. Raises InvalidValueError where no row has the
    key or its value is no number.
    """
    returned = [_returned(one) for one in extra]
    if not any(key in row for row in returned):
        names = ", ".join(sorted({name for row in returned for name in row})) or "no key at all"
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returns no {key!r}; it returned: {names}"
        )
    return np.asarray([_number(row.get(key), key) for row in returned])


def _returned(extra: Any) -> dict[str, Any]:
    found = extra.get(_RETURNED) if isinstance(extra, dict) else None
    return found if isinstance(found, dict) else {}


def _number(value: Any, key: str) -> float:
    if value is None:
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returned {value!r} as {key!r}; a number is "
            "needed"
        ) from error
