"""What choosing the best of k samples by a stored score gains, over the samples of a run."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from maxatk import errors
from maxatk.check import existing_folder, needing
from maxatk.evaluation.budgets import is_budget
from maxatk.evaluation.folder import SAMPLES, SCORES, refuse_file
from maxatk.evaluation.load import rewarded_scores
from maxatk.evaluation.store import read_records
from maxatk.evaluation.submissions import answer_of
from maxatk.objectives import majority_at_k, max_at_k
from maxatk.records import Outcome, Sample, Score
from maxatk.statistics.intervals import (
    FloatArray,
    Interval,
    check_ks,
    default_ks,
    in_unit,
    mean_interval,
)

SCORIO_RULES = (
    "best_of_n",
    "majority_of_the_bests",
    "best_of_majority",
    "weighted_majority_vote",
    "softmax_weighted_vote",
    "rank_weighted_vote",
    "logit_weighted_vote",
    "filtered_vote",
    "cges_vote",
)
_SCORIO = "scorio:"
_SUBSETS = 200  # of each size, from every problem: a rule of scorio has no sum over all of them

_TRUTH = "truth"
_RANDOM = "random"
_MAJORITY = "majority"
_WITHOUT_ANSWER = (Outcome.UNFINISHED_THOUGHT, Outcome.OTHER_LANGUAGE)
_OF_SAMPLES = ("likelihood", "mean_likelihood", "tokens", "entropy", _MAJORITY)

_Row: TypeAlias = tuple[float, Mapping[str, Any]]
"""The reward of a sample, and what it can be chosen by."""

_Gain: TypeAlias = Callable[[Sequence[_Row], Sequence[int]], FloatArray]
"""The samples of a problem and K numbers k -> the mean reward of the one chosen of k: (K,)."""


@dataclasses.dataclass(frozen=True)
class _Selector:
    """A way of choosing the best of k samples: its name, what it needs of each, and its gain."""

    name: str
    needed: tuple[str, ...]
    gain: _Gain


@dataclasses.dataclass(frozen=True)
class SelectionGains:
    """What each way of choosing gains at every k, as means over problems: (K,) each.

    "truth" is max@k itself, "random" the mean reward, both of the samples that have every score. A
    problem with fewer than k of these is left out of the means at k. `left_out` problems have no
    such sample, and `samples_left_out` of all problems are none.
    """

    ks: tuple[int, ...]
    gains: Mapping[str, Interval]
    problems: int
    left_out: int
    samples_left_out: int


def selection_gains(
    folder: str | Path, by: Sequence[str], *, ks: Sequence[int] | None = None
) -> SelectionGains:
    """Return what choosing the best of k by each of `by` gains, for the samples of a run.

    `by` are columns of the scores, "likelihood" (the log-probability), "mean_likelihood" (that of
    a token), "tokens", "entropy", "majority", or "scorio:RULE:COLUMN", the mean over 200 random
    subsets. The reward is the run's own: a column where that stands in for it in its results.
    Samples without a reward or a score are left out. One without an answer, as one whose reasoning
    never ends, agrees with no other one in "majority". `ks` are 1, 2, 4, ... by default, up to the
    samples of the problem with the fewest.

    Raises MissingFileError without scores, InvalidValueError for a column that no sample has,
    scores that a rule does not take, and a k above those samples or above what any problem has with
    a score, MissingDependencyError for scorio.
    """
    folder = Path(folder)
    refuse_file("run", folder)
    existing_folder("run", folder)
    if not (folder / SCORES).is_file():
        raise errors.MissingFileError(
            f"{folder}: holds no {SCORES}; select needs a folder that eval or score has written"
        )
    scores = rewarded_scores(folder)
    samples = read_records(folder / SAMPLES, Sample) if (folder / SAMPLES).is_file() else {}
    scored = [(score, _criteria(score, samples.get(key))) for key, score in scores.items()]
    selectors = [_selector(name) for name in by]
    needed = [criterion for selector in selectors for criterion in selector.needed]
    _refuse_missing(needed, {name for _, criteria in scored for name in criteria}, folder)

    rows_by_problem = _rows_by_problem(scored, needed)
    if not rows_by_problem:
        raise errors.InvalidValueError(
            f"{folder}: no sample has a reward and all of {', '.join(by)}"
        )
    stored_samples = Counter(score.problem_id for score in scores.values())
    fewest_stored = min(stored_samples.values())
    most_with_scores = max(len(rows) for rows in rows_by_problem.values())
    largest = min(fewest_stored, most_with_scores)
    ks = default_ks(largest) if ks is None else check_ks(ks, largest)
    rewards = [reward for rows in rows_by_problem.values() for reward, _ in rows]
    bounded = np.full(len(ks), in_unit(np.array(rewards)))
    problems = {score.problem_id for score, _ in scored}
    return SelectionGains(
        ks=tuple(ks),
        gains={
            selector.name: mean_interval(_gains(selector, rows_by_problem, ks), bounded=bounded)
            for selector in (_selector(_TRUTH), *selectors, _selector(_RANDOM))
        },
        problems=len(rows_by_problem),
        left_out=len(problems) - len(rows_by_problem),
        samples_left_out=len(scored) - sum(map(len, rows_by_problem.values())),
    )


def _refuse_missing(needed: Sequence[str], present: Collection[str], folder: Path) -> None:
    for name in needed:
        if name in present:
            continue
        if name in _OF_SAMPLES:
            raise errors.InvalidValueError(
                f"by: {name!r} needs what {SAMPLES} of {folder} does not hold; allowed here: "
                f"{', '.join(sorted(present)) or 'nothing'}"
            )
        if not present:
            raise errors.InvalidValueError(
                f"by: {name!r} is no score of {folder}, whose samples have rewards alone; `eval` "
                "stores likelihood, tokens and entropy, and `score` the columns of a file"
            )
        raise errors.unknown_name("by", name, present)


def _rows_by_problem(
    scored: Sequence[tuple[Score, dict[str, Any]]], needed: Sequence[str]
) -> dict[str, list[_Row]]:
    """Return by problem the samples that have a reward and all that is needed to choose."""
    rows_by_problem: dict[str, list[_Row]] = defaultdict(list)
    for score, criteria in scored:
        if score.reward is not None and all(name in criteria for name in needed):
            rows_by_problem[score.problem_id].append((score.reward, criteria))
    return rows_by_problem


def _criteria(score: Score, sample: Sample | None) -> dict[str, Any]:
    """Return what a sample can be chosen by: numbers, and what it votes for as "majority"."""
    # The reward within a budget of turns is a reward, and no score that is known without one.
    columns = {name: value for name, value in score.columns.items() if not is_budget(name)}
    criteria: dict[str, Any] = {_MAJORITY: score.program}
    has_answer = score.outcome not in _WITHOUT_ANSWER
    if sample is not None:
        criteria["likelihood"] = sample.logprob
        criteria["tokens"] = sample.tokens
        criteria["entropy"] = sample.entropy
        criteria[_MAJORITY] = score.program or answer_of(sample.completion)
        has_answer = has_answer and sample.completion.strip() != ""
        if sample.logprob is not None and sample.tokens:
            criteria["mean_likelihood"] = sample.logprob / sample.tokens
    if not has_answer:
        criteria[_MAJORITY] = f"\0{score.sample}"  # no other sample has this answer
    # A table may have columns of these names, where its samples are completions alone.
    known_criteria = {name: value for name, value in criteria.items() if value is not None}
    return {**columns, **known_criteria}


def _selector(name: str) -> _Selector:
    """Return the way of choosing of this name; raises as `selection_gains`."""
    if name.startswith(_SCORIO):
        return _scorio_selector(name)
    gains: dict[str, _Gain] = {
        _TRUTH: _truth_gain,
        _RANDOM: _random_gain,
        _MAJORITY: _majority_gain,
    }
    gain = gains.get(name) or functools.partial(_column_gain, name)
    return _Selector(name, (name,), gain)


def _scorio_selector(name: str) -> _Selector:
    """Return the rule and the scores that "scorio:RULE:COLUMN" names."""
    rule, _, column = name.removeprefix(_SCORIO).partition(":")
    if rule not in SCORIO_RULES:
        allowed = [f"{_SCORIO}{known_rule}" for known_rule in SCORIO_RULES]
        raise errors.unknown_name("by", name, allowed)
    if not column:
        raise errors.InvalidValueError(f"by: {name!r} names no scores; allowed: {name}:COLUMN")
    with needing(f"by: {name!r} needs the package 'scorio': pip install 'maxatk[scorio]'"):
        aggregate = importlib.import_module("scorio.aggregate")
    gain = functools.partial(_scorio_gain, name, getattr(aggregate, rule), column)
    return _Selector(name, (_MAJORITY, column), gain)


def _gains(
    selector: _Selector, rows_by_problem: Mapping[str, Sequence[_Row]], ks: Sequence[int]
) -> FloatArray:
    """Return the gain of one way of choosing: (P, K), NaN where a problem has too few samples."""
    table = np.full((len(rows_by_problem), len(ks)), np.nan)
    for values, rows in zip(table, rows_by_problem.values(), strict=True):
        possible = [k for k in ks if k <= len(rows)]  # the first ones, since they ascend
        values[: len(possible)] = selector.gain(rows, possible)
    return table


def _rewards(rows: Sequence[_Row]) -> FloatArray:
    return np.array([reward for reward, _ in rows], dtype=np.float64)


def _truth_gain(rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    return max_at_k(_rewards(rows), list(ks))


def _random_gain(rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    return np.full(len(ks), _rewards(rows).mean())


def _majority_gain(rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    votes = [criteria[_MAJORITY] for _, criteria in rows]
    return majority_at_k(_rewards(rows), votes, list(ks))


def _column_gain(column: str, rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    scores = np.array([criteria[column] for _, criteria in rows], dtype=np.float64)
    return max_at_k(_rewards(rows), list(ks), selection=scores)


def _scorio_gain(
    name: str, choose: Callable[..., Any], column: str, rows: Sequence[_Row], ks: Sequence[int]
) -> FloatArray:
    """Return the mean reward that a rule chooses of k samples, over the same random subsets."""
    rewards = _rewards(rows)
    votes = [criteria[_MAJORITY] for _, criteria in rows]
    scores = np.array([criteria[column] for _, criteria in rows], dtype=np.float64)
    codes = np.unique(votes, return_inverse=True)[1]  # an empty answer would have no vote
    samples = np.tile(np.arange(len(rewards)), (_SUBSETS, 1))
    orders = np.random.default_rng(0).permuted(samples, axis=1)
    gains = []
    for k in ks:
        subsets = orders[:, :k]  # nested: those of a larger k hold those of a smaller one
        try:
            places = choose(codes[subsets], scores[subsets], return_index=True)[1]
        except ValueError as error:
            raise errors.InvalidValueError(f"by: {name!r}: {error}") from error
        chosen = np.take_along_axis(subsets, places[:, None], axis=1)
        gains.append(rewards[chosen].mean())
    return np.array(gains)
