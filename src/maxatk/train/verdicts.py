"""What reward functions of this package say of their last call beside the rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from maxatk.evaluation.failures import failure_of
from maxatk.records import Outcome, TestCase, Verdict
from maxatk.train.clock import Metrics
from maxatk.training import keys

OUTCOMES = (Outcome.TIME_LIMIT, Outcome.INFRA_ERROR)  # of tests, that are logged


def tests_of(rows: Sequence[Mapping[str, Any]], rewards: Sequence[Any]) -> list[Any]:
    """Return what tests said of the completion of each row, for the record; None for nothing.

    `rows` are those of the data set in the last call of the reward functions, of which the first
    one that runs tests is asked.
    """
    verdicts = _first_verdicts(rewards, len(rows))
    if verdicts is None:
        return [None] * len(rows)
    pairs = list(zip(rows, verdicts, strict=True))
    # A reward may have run other tests than those of the row's column, which would be shown wrong.
    if any(len(row.get("tests") or ()) != verdict.total for row, verdict in pairs):
        return [None] * len(rows)
    return [_recorded(row["tests"], verdict) for row, verdict in pairs]


def _first_verdicts(rewards: Sequence[Any], count: int) -> Sequence[Verdict] | None:
    """Return the verdicts of the first reward that has one for each of so many completions."""
    for reward in rewards:
        verdicts: Sequence[Verdict] | None = getattr(reward, "verdicts", None)
        if verdicts and len(verdicts) == count:
            return verdicts
    return None


def _recorded(tests: Sequence[Any], verdict: Verdict) -> dict[str, Any]:
    def test_at(place: int) -> TestCase:
        test = tests[place]
        return test if isinstance(test, TestCase) else TestCase.from_json(test)

    recorded: dict[str, Any] = {
        "passed": verdict.passed,
        "tests": verdict.total,
        "outcome": str(verdict.outcome),
    }
    failure = failure_of(verdict, test_at, problem_id="", sample=0)
    if failure is not None:
        recorded["failure"] = failure.to_json()
        del recorded["failure"]["sample"]
    return recorded


def log_outcomes(metrics: Metrics, reward: Any, accelerator: Any) -> int:
    """Log the share of completions a reward failed for, and of tests cut off or not run.

    Those are tests that ran out of time, and tests that the verifier failed at. Returns how many
    tests there were in all processes.
    """
    failed = getattr(reward, "failed", None)
    if failed is not None:
        share = torch.tensor(failed, device=accelerator.device)
        metrics[keys.FAILED].append(float(accelerator.reduce(share, reduction="mean")))
    verdicts = getattr(reward, "verdicts", None)
    if verdicts is None:
        return 0
    outcomes = [test.outcome for verdict in verdicts for test in verdict.tests]
    counts_here = [len(outcomes), *(outcomes.count(outcome) for outcome in OUTCOMES)]
    total, *counts = np.sum(gather_object([counts_here]), axis=0)
    for outcome, count in zip(OUTCOMES, counts, strict=True):
        metrics[f"verifier/{outcome.value}"].append(float(count / max(total, 1)))
    return int(total)
