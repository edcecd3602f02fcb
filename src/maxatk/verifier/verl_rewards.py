"""Rewards of programs in verl's shape: of one solution, and of a batch of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.bounded import json_value
from maxatk.check import column, require
from maxatk.errors import DataError
from maxatk.records import Problem
from maxatk.verifier.completion_jobs import ProgramOf, completion_job
from maxatk.verifier.extract import UnfinishedThought
from maxatk.verifier.jobs import Job
from maxatk.verifier.remote import addresses
from maxatk.verifier.shared_verifier import check_settings, shared_reader, shared_verifier
from maxatk.verifier.verdict_rewards import as_reward

GroundTruth = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""Tests, or an object with `tests` and other fields of a problem; either may be JSON text."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: GroundTruth,
    extra_info: Mapping[str, Any] | None = None,
    *,
    binary: bool = False,
    workers: int | None = None,
    unfinished_thought: UnfinishedThought = "wrong",
    sandbox: str | Sequence[str] = (),
) -> dict[str, float]:
    """Return `score` (passed / declared tests), `passed`, `total` and `unscored` of a solution.

    Where the verifier itself failed, `score` is NaN and `unscored` 1. With `binary` the score is
    1.0 only where all tests passed. `workers` programs run at a time in this process, by default
    one for each core; a share where verl starts several processes (`reward.num_workers`). With
    `sandbox`, addresses of `maxatk serve`, they run there. A solution whose reasoning never ends
    scores 0, unless `unfinished_thought` is "read". Raises DataError for a ground truth that holds
    no tests.
    """
    scores = compute_scores(
        [data_source],
        [solution_str],
        [ground_truth],
        [extra_info],
        binary=binary,
        workers=workers,
        unfinished_thought=unfinished_thought,
        sandbox=sandbox,
    )
    return scores[0]


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[GroundTruth],
    extra_infos: Sequence[Mapping[str, Any] | None],  # noqa: ARG001  (part of the shape)
    *,
    binary: bool = False,
    workers: int | None = None,
    unfinished_thought: UnfinishedThought = "wrong",
    sandbox: str | Sequence[str] = (),
) -> list[dict[str, float]]:
    """Do as `compute_score` for each sample of a batch, in the shape of verl's batch manager.

    Raises InvalidValueError for columns that are no lists of one length, and as `compute_score`.
    """
    columns = {"solution_strs": solution_strs, "ground_truths": ground_truths}
    column("data_sources", data_sources)
    for name, values in columns.items():
        column(name, values, len(data_sources))
    servers = addresses(sandbox)
    check_settings(workers, unfinished_thought)
    program_of = shared_reader(unfinished_thought).program_of
    jobs = [
        _ground_truth_job(program_of, source, solution, truth)
        for source, solution, truth in zip(data_sources, solution_strs, ground_truths, strict=True)
    ]
    verifier = shared_verifier(workers, unfinished_thought, servers)
    scores = []
    for verdict in verifier.verify_many(jobs):
        reward = as_reward(verdict, binary=binary)
        scores.append(
            {
                "score": math.nan if reward is None else reward,
                "passed": float(verdict.passed),
                "total": float(verdict.total),
                "unscored": float(reward is None),
            }
        )
    return scores


def _ground_truth_job(
    program_of: ProgramOf, data_source: str, solution: str, ground_truth: GroundTruth
) -> Job:
    """Return the job of a sample of verl; raises DataError for a ground truth without tests."""
    require(isinstance(solution, str), "solution_str", "a string", solution)
    try:
        row = json_value(ground_truth) if isinstance(ground_truth, str) else ground_truth
        fields = row if isinstance(row, Mapping) else {"tests": row}
        fields = {**fields, "tests": list(fields["tests"])}  # an array, out of a parquet file
        problem = Problem.from_json({"id": "-", "prompt": "", **fields})
        return completion_job(program_of, solution, problem)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"ground_truth of {data_source!r}: {error!r}; got {ground_truth!r:.80}"
        ) from error
