"""Reward functions in verl's shape: `compute_score` for one sample, `compute_scores` for a batch.

verl loads a reward function by file and name (`custom_reward_function.path` and `.name`): a file
with `from maxatk.verifier import compute_score` is enough. verl itself is not needed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.errors import DataError
from maxatk.records import Problem, Verdict
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.rewards import as_reward, shared_verifier

GroundTruth = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""Tests, or an object with `tests` and other fields of a problem; either may be JSON text."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: GroundTruth,
    extra_info: Mapping[str, Any] | None = None,
    *,
    binary: bool = False,
    workers: int = 2,
) -> dict[str, float]:
    """Return `score` (passed / declared tests), `passed`, `total` and `unscored` of a solution.

    Where the verifier itself failed, `score` is NaN and `unscored` 1: an infrastructure failure is
    no reward of 0.

    Args:
        data_source: The name of the data set.
        solution_str: The completion.
        ground_truth: Tests, or an object with `tests` and other fields of a problem.
        extra_info: Part of verl's shape; not read.
        binary: Whether the score is 1.0 only where all tests passed.
        workers: How many programs run at a time in this process, which verl starts
            `reward.num_workers` of.

    Raises DataError for a ground truth that holds no tests.
    """
    (score,) = compute_scores(
        [data_source],
        [solution_str],
        [ground_truth],
        [extra_info],
        binary=binary,
        workers=workers,
    )
    return score


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[GroundTruth],
    extra_infos: Sequence[Mapping[str, Any] | None],  # noqa: ARG001  (part of the shape)
    *,
    binary: bool = False,
    workers: int = 2,
) -> list[dict[str, float]]:
    """Return what `compute_score` does for each sample of a batch, verified together.

    The shape of verl's batch reward manager: one entry a sample in each list.

    Args:
        data_sources: As in `compute_score`, as are the others.
        solution_strs: The completions.
        ground_truths: Their tests.
        extra_infos: Not read.
        binary: Whether a score is 1.0 only where all tests passed.
        workers: How many programs run at a time in this process.

    Raises DataError as `compute_score` does.
    """
    jobs = [
        _job(source, solution, truth)
        for source, solution, truth in zip(data_sources, solution_strs, ground_truths, strict=True)
    ]
    return [
        _score(verdict, binary=binary) for verdict in shared_verifier(workers).verify_many(jobs)
    ]


def _job(data_source: str, solution: str, ground_truth: GroundTruth) -> Job:
    row = _parse(ground_truth)
    fields = row if isinstance(row, Mapping) else {"tests": row}
    try:
        fields = {**fields, "tests": list(fields["tests"])}  # an array, out of a parquet file
        problem = Problem.from_json({"id": data_source or "-", "prompt": "", **fields})
        return problem_job(extract_code(solution, problem.entry_point), problem)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"ground_truth of {data_source!r}: {error!r}") from error


def _parse(ground_truth: GroundTruth) -> Any:
    if not isinstance(ground_truth, str):
        return ground_truth
    try:
        return json.loads(ground_truth)
    except ValueError as error:
        raise DataError(f"ground_truth: not JSON ({error}): {ground_truth[:80]!r}") from error


def _score(verdict: Verdict, *, binary: bool) -> dict[str, float]:
    reward = as_reward(verdict, binary=binary)
    return {
        "score": float("nan") if reward is None else reward,
        "passed": float(verdict.passed),
        "total": float(verdict.total),
        "unscored": float(reward is None),
    }
