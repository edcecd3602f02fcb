"""Which learning rate: the smallest of some trainings that still learns in so many steps.

A larger rate moves every method the same way, up for one answer and down for the best of many
(docs/study.md), so that the step should be no larger than learning needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.folders import known_values
from maxatk.training.keys import REWARD, max_at
from maxatk.training.symptoms import LogRow, group_size, thirds, training_rows

RATE = "learning_rate"
FEWEST_ROWS = 6  # with a reward, so that a third of them has a standard error
_ERRORS = 2.0  # that a rise has to exceed


def rate_rows(logs: Mapping[str, Sequence[LogRow]]) -> list[dict[str, Any]]:
    """Return a row for each training, by its rate: what its log says of reward and max@n.

    `first` and `last` are means over the first and the last third of the logged rewards, `error` is
    the standard error of their difference, as if rows were independent, and `learns` says that the
    difference is above two of them. Raises InvalidValueError for a log that is too short, or does
    not hold its rate.
    """
    rows = []
    for name, log in logs.items():
        trained = training_rows(log)
        rewards = known_values(trained, REWARD)
        rates = known_values(trained, RATE)
        if len(rewards) < FEWEST_ROWS or not rates:
            raise InvalidValueError(
                f"{name}: its log must have {FEWEST_ROWS} rows or more with a reward, and a "
                f"{RATE}; it has {len(rewards)} and {len(rates)}"
            )
        first, last = thirds(trained, REWARD)
        error = math.sqrt(np.var(first, ddof=1) / len(first) + np.var(last, ddof=1) / len(last))
        rise = float(np.mean(last) - np.mean(first))
        best_of_group = max_at(group_size(trained))
        rows.append(
            {
                "training": name,
                RATE: max(rates),  # schedules lead up to it or down from it
                "first": float(np.mean(first)),
                "last": float(np.mean(last)),
                "rise": rise,
                "error": error,
                "best_rise": _rise(trained, best_of_group),
                "learns": rise > _ERRORS * error,
            }
        )
    return sorted(rows, key=lambda row: row[RATE])


def suggested_rate(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what `rate_rows` say of the rate, in a sentence."""
    learning = [row for row in rows if row["learns"]]
    if not learning:
        return (
            "no rate learns in so many steps: the rewards of the last third are not above those of "
            "the first. Train longer, or try a larger rate"
        )
    smallest = learning[0]
    sentence = f"the smallest rate that learns in so many steps is {smallest[RATE]:g}"
    if smallest[RATE] == rows[0][RATE]:  # of two trainings with a rate, one may not have learned
        sentence += ", and it is the smallest that was tried: try half of it as well"
    return sentence


def _rise(rows: Sequence[LogRow], key: str) -> float | None:
    """Return the difference of the last and the first third of a key, None for too few."""
    if len(known_values(rows, key)) < FEWEST_ROWS:
        return None
    first, last = thirds(rows, key)
    return float(np.mean(last) - np.mean(first))
