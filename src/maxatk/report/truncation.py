"""Samples that were cut off by their length, said of every run."""

from __future__ import annotations

from maxatk.evaluation.results import MOST_CUT_OFF, cut_off
from maxatk.report.runs import Comparison


def cut_off_shares(comparison: Comparison) -> dict[str, float]:
    """Return the share of every run's samples that was cut off, of the runs that know it."""
    shares = {run.name: cut_off(run.results) for run in comparison.runs}
    return {name: share for name, share in shares.items() if share is not None}


def cut_off_warnings(comparison: Comparison) -> list[str]:
    """Return a sentence for every run with more of its samples cut off than can be passed over."""
    return [
        f"{name} has {share:.1%} of its samples cut off by their length, so that its metrics say "
        "much about sampling.max_new_tokens."
        for name, share in cut_off_shares(comparison).items()
        if share > MOST_CUT_OFF
    ]
