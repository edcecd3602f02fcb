"""What choosing the best of k samples by a stored score gains, over the samples of a run."""

from __future__ import annotations

import dataclasses
import importlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from maxatk import errors
from maxatk.check import needing
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.store import read_records
from maxatk.evaluation.submissions import answer_of
from maxatk.objectives import majority_at_k, max_at_k
from maxatk.records import Sample, Score
from maxatk.statistics.intervals import FloatArray, Interval, check_ks, default_ks, mean_interval

SCORIO_RULES = (
    *("best_of_n", "majority_of_the_bests", "best_of_majority", "weighted_majority_vote"),
    *("softmax_weighted_vote", "rank_weighted_vote", "logit_weighted_vote", "filtered_vote"),
    "cges_vote",
)
_SCORIO = "scorio:"
_SUBSETS = 200  # of each size, from every problem: a rule of scorio has no sum over all of them
_TRUTH, _RANDOM, _MAJORITY = "truth", "random", "majority"
_OF_SAMPLES = ("likelihood", "mean_likelihood", "tokens", "entropy", _MAJORITY)
_Row: TypeAlias = tuple[float, Mapping[str, Any]]
"""The reward of a sample, and what it can be chosen by."""


@dataclasses.dataclass(frozen=True)
class SelectionGains:
    """What each way of choosing gains at every k, as means over problems: (K,) each.

    "truth" is max@k itself, "random" the mean reward. `left_out` problems lack some score.
    """

    ks: tuple[int, ...]
    gains: Mapping[str, Interval]
    problems: int
    left_out: int


def selection_gains(
    folder: str | Path, by: Sequence[str], *, ks: Sequence[int] | None = None
) -> SelectionGains:
    """Return what choosing the best of k by each of `by` gains, for the samples of a run.

    `by` are columns of the scores, "likelihood" (the log-probability), "mean_likelihood" (that of
    a token), "tokens", "entropy", "majority", or "scorio:RULE:COLUMN", the mean over 200 random
    subsets. Samples without a reward or a score are left out. `ks` are 1, 2, 4, ... by default.

    Raises MissingFileError without scores, InvalidValueError for a column that no sample has,
    scores that a rule does not take and a k above the samples, MissingDependencyError for scorio.
    """
    folder = Path(folder)
    if not (folder / SCORES).is_file():
        raise errors.MissingFileError(
            f"{folder}: holds no {SCORES}; select needs a folder that eval or score has written"
        )
    scores = read_records(folder / SCORES, Score)
    samples = read_records(folder / SAMPLES, Sample) if (folder / SAMPLES).is_file() else {}
    rows = [(score, _known(score, samples.get(key))) for key, score in scores.items()]
    known = {name for _, values in rows for name in values}
    needed = [part for way in by for part in _parts(way)]
    for name in needed:
        if name not in known and name in _OF_SAMPLES:
            raise errors.InvalidValueError(
                f"by: {name!r} needs what {SAMPLES} of {folder} does not hold; allowed here: "
                f"{', '.join(sorted(known)) or 'nothing'}"
            )
        if name not in known:
            raise errors.unknown_name("by", name, known)
    groups: dict[str, list[_Row]] = defaultdict(list)
    for score, values in rows:
        if score.reward is not None and all(name in values for name in needed):
            groups[score.problem_id].append((score.reward, values))
    if not groups:
        raise errors.InvalidValueError(
            f"{folder}: no sample has a reward and all of {', '.join(by)}"
        )
    fewest = min(map(len, groups.values()))
    ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    gains = {
        name: mean_interval(np.stack([_gain(name, found, ks) for found in groups.values()]))
        for name in (_TRUTH, *by, _RANDOM)
    }
    left_out = len({score.problem_id for score, _ in rows}) - len(groups)
    return SelectionGains(tuple(ks), gains, len(groups), left_out)


def _known(score: Score, sample: Sample | None) -> dict[str, Any]:
    """Return what a sample can be chosen by: numbers, and what it votes for as "majority"."""
    known = {**score.columns, _MAJORITY: score.program}
    if sample is not None:
        known |= {"likelihood": sample.logprob, "tokens": sample.tokens, "entropy": sample.entropy}
        known[_MAJORITY] = score.program or answer_of(sample.completion)
        if sample.logprob is not None and sample.tokens:
            known["mean_likelihood"] = sample.logprob / sample.tokens
    return {name: value for name, value in known.items() if value is not None}


def _parts(way: str) -> tuple[str, ...]:
    """Return what a way of choosing needs of a sample; raises as `selection_gains`."""
    if not way.startswith(_SCORIO):
        return (way,)
    rule, _, column = way.removeprefix(_SCORIO).partition(":")
    if rule not in SCORIO_RULES:
        raise errors.unknown_name("by", way, [f"{_SCORIO}{known}" for known in SCORIO_RULES])
    if not column:
        raise errors.InvalidValueError(f"by: {way!r} names no scores; allowed: {way}:COLUMN")
    with needing(f"by: {way!r} needs the package 'scorio': pip install 'maxatk[scorio]'"):
        importlib.import_module("scorio.aggregate")
    return _MAJORITY, column


def _gain(name: str, rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    """Return the gain of one way of choosing over the samples of a problem: (K,)."""
    rewards = np.array([reward for reward, _ in rows], dtype=np.float64)
    if name == _TRUTH:
        return max_at_k(rewards, list(ks))
    if name == _RANDOM:
        return np.full(len(ks), rewards.mean())
    if name == _MAJORITY:
        return majority_at_k(rewards, [values[_MAJORITY] for _, values in rows], list(ks))
    scores = np.array([values[_parts(name)[-1]] for _, values in rows], dtype=np.float64)
    if name.startswith(_SCORIO):
        votes = [values[_MAJORITY] for _, values in rows]
        return _scorio_gain(name, rewards, votes, scores, ks)
    return max_at_k(rewards, list(ks), selection=scores)


def _scorio_gain(
    way: str, rewards: FloatArray, votes: Sequence[str], scores: FloatArray, ks: Sequence[int]
) -> FloatArray:
    """Return the mean reward that a rule chooses of k samples, over the same random subsets."""
    rule = way.removeprefix(_SCORIO).partition(":")[0]
    choose = getattr(importlib.import_module("scorio.aggregate"), rule)
    codes = np.unique(votes, return_inverse=True)[1]  # an empty answer would have no vote
    samples = np.tile(np.arange(len(rewards)), (_SUBSETS, 1))
    orders = np.random.default_rng(0).permuted(samples, axis=1)
    try:
        chosen = [
            choose(codes[some], scores[some], return_index=True)[1][:, None]
            for some in (orders[:, :k] for k in ks)
        ]
    except ValueError as error:
        raise errors.InvalidValueError(f"by: {way!r}: {error}") from error
    return np.array([rewards[np.take_along_axis(orders, at, axis=1)].mean() for at in chosen])
