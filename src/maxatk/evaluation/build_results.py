"""From scores and samples, of which a run may have millions, to results: each is seen once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.check import is_finite, require
from maxatk.evaluation import results
from maxatk.evaluation.blind_retry import VISIBLE_TESTS, retried_max_at_k
from maxatk.evaluation.means import diversity_of, means_of, number_or_none
from maxatk.evaluation.sample_tally import SampleTally
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.folders import writable
from maxatk.objectives import max_at_k
from maxatk.objectives.metrics import passes
from maxatk.records import Sample, Score
from maxatk.statistics import intervals
from maxatk.statistics.intervals import FloatArray

_METHOD = (
    "percentile bootstrap over problems; Student's t where fewer than "
    f"{intervals.FEW_PROBLEMS} have a value"
)


def build_results(
    problem_ids: Sequence[str],
    samples: Iterable[Sample] | None,
    scores: Iterable[Score] | ScoreTally,
    *,
    manifest: Mapping[str, Any],
    ks: Sequence[int] = (),
    threshold: float = 1.0,
    meta: Sequence[Mapping[str, Any]] | None = None,
) -> results.Results:
    """Return the results of one evaluation.

    Every problem must have a score; one with fewer than k rewards is left out of the mean at k.
    `ks` are beside 1, 2, 4, ... up to the samples of the problem with the fewest. A sample passes
    from the reward `threshold` on. `meta` has the problems' own fields.

    Raises InvalidValueError for a k above those samples, a threshold that is not finite, and a
    column that no score has.
    """
    require(is_finite(threshold), "threshold", "a finite number", threshold)
    score_tally = scores if isinstance(scores, ScoreTally) else ScoreTally(scores)
    rewards, counts = score_tally.rewards(problem_ids)
    fewest = int(counts.min())
    ks = sorted({*intervals.default_ks(fewest), *intervals.check_ks(ks, fewest)})
    values = _values_of_problems(rewards, score_tally, problem_ids, ks, threshold=threshold)
    programs, program_entropies = score_tally.programs(problem_ids) or (None, None)
    sample_tally = SampleTally()
    for sample in samples or ():
        sample_tally.add(sample)
    per_problem = results.PerProblem(
        ids=tuple(problem_ids),
        samples=tuple(counts.tolist()),
        scored=tuple((~np.isnan(rewards)).sum(axis=1).tolist()),
        correct=tuple(passes(rewards, threshold).sum(axis=1).tolist()),
        lowest=tuple(map(number_or_none, np.fmin.reduce(rewards, axis=1))),
        highest=tuple(map(number_or_none, np.fmax.reduce(rewards, axis=1))),
        zeroed=score_tally.zeroed(problem_ids),
        distinct=None if samples is None else sample_tally.distinct(problem_ids),
        programs=programs,
        program_entropy=program_entropies,
        meta=tuple(map(writable, meta)) if meta and any(meta) else None,
        values={
            name: {k: tuple(map(number_or_none, column)) for k, column in by_k.items()}
            for name, by_k in values.items()
        },
    )
    return results.Results(
        metrics=means_of(per_problem.values, per_problem.extremes),
        interval={"method": _METHOD, "level": intervals.LEVEL, "resamples": intervals.RESAMPLES},
        threshold=threshold,
        column=score_tally.column,
        per_problem=per_problem,
        counts=score_tally.counts(),
        finish_reasons=sample_tally.finish_reasons,
        entropy=sample_tally.entropy,
        diversity=diversity_of(per_problem),
        manifest=dict(manifest),
    )


def _values_of_problems(
    rewards: FloatArray,
    score_tally: ScoreTally,
    problem_ids: Sequence[str],
    ks: Sequence[int],
    *,
    threshold: float,
) -> dict[str, dict[int, FloatArray]]:
    """Return every metric of P problems by k, (P,) each; the rewards are (P, N)."""
    tables = intervals.metric_values(rewards, ks, threshold=threshold)  # (P, K) each
    for name, selection in score_tally.selecting_columns(problem_ids).items():
        tables[f"max@k by {name}"] = max_at_k(rewards, ks, selection=selection)
    values = {metric: dict(zip(ks, table.T, strict=True)) for metric, table in tables.items()}
    visible_shares = score_tally.column_values(problem_ids, VISIBLE_TESTS)
    return values | _retried(rewards, visible_shares, ks)


def _retried(
    rewards: FloatArray, visible_shares: FloatArray, ks: Sequence[int]
) -> dict[str, dict[int, FloatArray]]:
    """Return the metric of a blind retry at the k that a problem has 2k samples for, if any."""
    table = retried_max_at_k(rewards, visible_shares, ks)
    by_k = {k: values for k, values in zip(ks, table.T, strict=True) if not np.isnan(values).all()}
    return {results.RETRIED: by_k} if by_k else {}
