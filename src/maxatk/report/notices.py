"""What a reader should know of runs before any number: settings that differ, samples that lack."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.errors import counted
from maxatk.evaluation.results import MOST_CUT_OFF
from maxatk.evaluation.selection_note import selection_note
from maxatk.report.comparison import Comparison
from maxatk.report.recorded_settings import setting_differences, training_differences
from maxatk.statistics.intervals import FEW_PROBLEMS


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to know; `id` is that of its element on the page, `lines` are about single runs."""

    id: str
    text: str
    lines: Sequence[str] = ()


def notices(
    comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Notice]:
    """Return what a reader should know of these runs before any number.

    `recipes` are those of trainings, by model, where the manifests of the runs have none.
    """
    on_common = []
    lacking = []
    cut_off = []
    for run in comparison.runs:
        if run.left_out:
            total = counted(run.problems + run.left_out)
            on_common.append(f"{run.name}: {run.problems:,} of its {total}, those of all runs.")
        if run.results.counts.lacking:
            lacking.append(f"{run.name}: {run.results.counts.lacking}.")
        share = run.results.cut_off
        if share is not None and share > MOST_CUT_OFF:
            cut_off.append(
                f"{run.name} has {share:.1%} of its samples cut off by their length, so that its "
                "metrics say much about sampling.max_new_tokens."
            )
    differing = setting_differences(comparison)
    trained_differently = training_differences(comparison, recipes or {})
    about_runs = [
        Notice("common-problems", "Problems that a run lacks are left out of all:", on_common),
        Notice("largest-k", "Some models have more samples than are compared:", _ends(comparison)),
        Notice("other-values", "Some means are over other problems:", _other_values(comparison)),
        Notice("setting-differences", "The runs differ in more than the model:", differing),
        Notice(
            "training-differences",
            "The trainings differ in more than the method:",
            trained_differently,
        ),
        Notice("cut-off", "Samples were cut off:", cut_off),
        Notice("unscored", "Samples without a reward:", lacking),
    ]
    notices = [notice for notice in about_runs if notice.lines]
    if comparison.baseline.problems < FEW_PROBLEMS:
        notices.append(_few_problems(comparison.baseline.problems))
    return notices


def _ends(comparison: Comparison) -> list[str]:
    """Return why the k end where they do, where a run has problems with more samples."""
    lines = []
    for run in comparison.runs:
        uneven = run.results.uneven
        if uneven:
            lines.append(f"{run.name}: {uneven}.")
    largest_of = {run.name: max(run.results.ks) for run in comparison.runs}
    largest = comparison.ks[-1]
    if max(largest_of.values()) > largest:
        largest_by_run = ", ".join(f"{name} has {k:,}" for name, k in largest_of.items())
        lines.append(f"k ends at {largest:,}, the largest that all have: {largest_by_run}.")
    return lines


def _other_values(comparison: Comparison) -> list[str]:
    """Return over how many problems models are ranked, where they have no value of the same."""
    ks_of: dict[str, list[str]] = {}
    for k in comparison.ks:
        counts = [run.metric("max@k", k).problems for run in comparison.runs]
        in_common = comparison.values_in_common("max@k", k).shape[1]
        if max(counts) > in_common:
            problems = counted(max(counts))
            if min(counts) < max(counts):
                problems = f"{min(counts):,} to {problems}"
            text = (
                f"the models have k rewards of {problems}; they are "
                f"ranked on the {in_common:,} that all have, and each test is over those of both."
            )
            ks_of.setdefault(text, []).append(str(k))
    return [f"k = {', '.join(ks)}: {text}" for text, ks in ks_of.items()]


def selection_lines(comparison: Comparison) -> list[str]:
    """Return a line where a model's own rewards chose the problems, as `select_problems` does."""
    # A run of rewards that were given in a file knows no meta, where another of the same does.
    metas = [run.results.per_problem.meta or () for run in comparison.runs]
    note = selection_note(itertools.chain(*metas))
    return [] if note is None else [f"{note}."]


def _few_problems(problems: int) -> Notice:
    text = "there is no interval."
    if problems > 1:
        text = (
            "intervals are Student's t. Where most problems are at the ceiling of 1 even these "
            "are too narrow: the tables say how many are below it."
        )
    return Notice("few-problems", f"With {counted(problems)} only, {text}")
