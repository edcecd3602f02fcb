"""max@k when the best of k samples is chosen by something else than the reward.

At inference nobody knows the reward: the best of k is the one with the highest likelihood, most
visible tests passed, or the answer that most samples give. What is then gained of max@k?
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from maxatk.errors import InvalidValueError, MissingFileError, unknown_name
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.statistics.intervals import (
    FloatArray,
    Interval,
    check_ks,
    default_ks,
    mean_interval,
)
from maxatk.evaluation.store import read_records
from maxatk.objectives import majority_at_k, max_at_k
from maxatk.records import Sample, Score

TRUTH, RANDOM, MAJORITY = "truth", "random", "majority"
OF_SAMPLES = ("likelihood", "mean_likelihood", "tokens", "entropy", MAJORITY)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def answer_of(completion: str) -> str:
    """Return the answer a completion votes for: its last boxed text, else its last number.

    Without either it is the whole text, spaces at its ends left out.
    """
    for pattern in (_BOXED, _NUMBER):
        if found := pattern.findall(completion):
            return str(found[-1]).strip()
    return completion.strip()


@dataclasses.dataclass(frozen=True)
class Selection:
    """What each way of choosing gains at every k.

    `gains` maps a way to its means over problems with the 95% intervals of `mean_interval`, (K,)
    each:
    "truth" is max@k itself, "random" the mean reward. `problems` have enough samples with a
    reward and every score; `left_out` do not.
    """

    ks: tuple[int, ...]
    gains: Mapping[str, Interval]
    problems: int
    left_out: int


def select(folder: str | Path, by: Sequence[str], *, ks: Sequence[int] | None = None) -> Selection:
    """Return what choosing the best of k by each of `by` gains, for the samples of a run.

    `by` are columns of the scores, "likelihood" (the log-probability), "mean_likelihood" (that of
    a token), "tokens", "entropy" or "majority". Samples without a reward or a score are left out.

    Raises MissingFileError without scores, InvalidValueError for a column that no sample has and
    for a k above the samples.
    """
    folder = Path(folder)
    if not (folder / SCORES).is_file():
        raise MissingFileError(
            f"{folder}: holds no {SCORES}; select needs a folder that eval or score has written"
        )
    scores = read_records(folder / SCORES, Score.from_json)
    samples = read_records(folder / SAMPLES, Sample.from_json) if _has_samples(folder) else {}
    table = [_row(score, samples.get(key)) for key, score in scores.items()]
    known = sorted({name for row in table for name in row.values})
    if any(row.vote is not None for row in table):
        known.append(MAJORITY)
    for name in by:
        if name not in known and name in OF_SAMPLES:
            raise InvalidValueError(
                f"by: {name!r} needs what {SAMPLES} of {folder} does not hold; allowed here: "
                f"{', '.join(known) or 'nothing'}"
            )
        if name not in known:
            raise unknown_name("by", name, known)
    columns = [name for name in by if name != MAJORITY]
    complete = [row for row in table if _is_complete(row, columns, vote=MAJORITY in by)]
    groups: dict[str, list[_Row]] = {}
    for row in complete:
        groups.setdefault(row.problem_id, []).append(row)
    if not groups:
        raise InvalidValueError(f"{folder}: no sample has a reward and all of {', '.join(by)}")
    fewest = min(map(len, groups.values()))
    chosen_ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    ways = {name: _way(name) for name in (TRUTH, *by, RANDOM)}
    gains = {
        name: mean_interval(np.stack([way(rows, chosen_ks) for rows in groups.values()]))
        for name, way in ways.items()
    }
    everything = {row.problem_id for row in table}
    return Selection(tuple(chosen_ks), gains, len(groups), len(everything) - len(groups))


@dataclasses.dataclass(frozen=True)
class _Row:
    problem_id: str
    reward: float | None
    values: Mapping[str, float]
    vote: str | None


def _row(score: Score, sample: Sample | None) -> _Row:
    values = dict(score.columns)
    vote = score.program
    if sample is not None:
        vote = answer_of(sample.completion) if vote is None else vote
        if sample.logprob is not None:
            values["likelihood"] = sample.logprob
            if sample.tokens:
                values["mean_likelihood"] = sample.logprob / sample.tokens
        for name in ("tokens", "entropy"):
            value = getattr(sample, name)
            if value is not None:
                values[name] = float(value)
    return _Row(score.problem_id, score.reward, values, vote)


def _has_samples(folder: Path) -> bool:
    return (folder / SAMPLES).is_file()


def _is_complete(row: _Row, columns: Sequence[str], *, vote: bool) -> bool:
    has_columns = all(name in row.values for name in columns)
    return row.reward is not None and has_columns and (row.vote is not None or not vote)


def _way(name: str) -> Callable[[Sequence[_Row], Sequence[int]], FloatArray]:
    """Return what computes the gain of one way of choosing over the samples of a problem: (K,)."""

    def gain(rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
        rewards = np.array([row.reward for row in rows], dtype=np.float64)
        if name == TRUTH:
            return max_at_k(rewards, list(ks))
        if name == RANDOM:
            return np.full(len(ks), rewards.mean())
        if name == MAJORITY:
            return majority_at_k(rewards, [str(row.vote) for row in rows], list(ks))
        scores = np.array([row.values[name] for row in rows])
        return max_at_k(rewards, list(ks), selection=scores)

    return gain
