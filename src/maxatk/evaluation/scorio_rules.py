"""The rules of the package scorio that choose an answer by votes and scores, for `select`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.errors import InvalidValueError, MissingDependencyError, unknown_name
from maxatk.statistics.intervals import FloatArray

PREFIX = "scorio:"
RULES = (
    *("best_of_n", "majority_of_the_bests", "best_of_majority", "weighted_majority_vote"),
    *("softmax_weighted_vote", "rank_weighted_vote", "logit_weighted_vote", "filtered_vote"),
    "cges_vote",
)
_SUBSETS = 200  # of each size, from every problem: such a rule has no sum over all of them


def column_of(way: str) -> str:
    """Return the column whose scores `scorio:RULE:COLUMN` weighs the answers by.

    Raises InvalidValueError for an unknown rule or without a column, and MissingDependencyError.
    """
    rule, _, column = way.removeprefix(PREFIX).partition(":")
    if rule not in RULES:
        raise unknown_name("by", way, [f"{PREFIX}{known}" for known in RULES])
    if not column:
        raise InvalidValueError(f"by: {way!r} names no scores; allowed: {way}:COLUMN")
    try:
        importlib.import_module("scorio.aggregate")
    except ImportError as error:
        raise MissingDependencyError(
            f"by: {way!r} needs the package 'scorio': pip install 'maxatk[scorio]'"
        ) from error
    return column


def gain(way: str, rewards: FloatArray, votes: Any, scores: FloatArray, ks: Any) -> FloatArray:
    """Return the mean reward that a rule chooses of k samples, over random subsets: (K,).

    `rewards`, `votes` and `scores` are (n,). The subsets are the same each time. Raises
    InvalidValueError for scores that the rule does not take.
    """
    rule = way.removeprefix(PREFIX).partition(":")[0]
    choose = getattr(importlib.import_module("scorio.aggregate"), rule)
    codes = np.unique(votes, return_inverse=True)[1]  # an empty answer would have no vote
    samples = np.tile(np.arange(len(rewards)), (_SUBSETS, 1))
    orders: npt.NDArray[np.intp] = np.random.default_rng(0).permuted(samples, axis=1)
    try:
        chosen = [
            choose(codes[some], scores[some], return_index=True)[1][:, None]
            for some in (orders[:, :k] for k in ks)
        ]
    except ValueError as error:
        raise InvalidValueError(f"by: {way!r}: {error}") from error
    return np.array([rewards[np.take_along_axis(orders, at, axis=1)].mean() for at in chosen])
