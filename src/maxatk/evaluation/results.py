"""The results of an evaluation: what `results.json` holds, of all problems or of some."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from maxatk.check import is_finite, is_list, mapping, shown
from maxatk.errors import DataError, counted
from maxatk.evaluation.folder import recorded
from maxatk.folders import read_json
from maxatk.notebook import data_frame, html_table

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
METRICS = ("max@k", "pass@k")
RETRIED = "max@k with retry"  # of problems with visible tests: see blind_retry.py
CEILING = 1.0  # from here on a sample passes, and more samples cannot raise the best
MOST_CUT_OFF = 0.2  # share of samples cut off by length from which on the metrics mislead
_REASONS_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Mean:
    """The mean of a metric over the problems with a value, and its 95% interval; None if unknown.

    `problems` have a value, `below` of them one below the ceiling of 1: the mean rests on those.
    """

    mean: float | None
    low: float | None
    high: float | None
    problems: int
    below: int | None = None


@dataclasses.dataclass(frozen=True)
class PerProblem:
    """Columns with an entry for every problem, in the order of `ids`; None where unknown.

    `scored` counts the samples with a reward, of which `lowest` and `highest` are the extremes,
    `correct` those that passed, `zeroed` those with a 0 because their reward failed, `distinct`
    different completions and `programs` different programs, whose shares have the
    `program_entropy` in nats.
    `values` maps a metric and k to its values. Raises DataError for a column of another length.
    """

    ids: tuple[str, ...] = ()
    samples: tuple[int, ...] = ()
    scored: tuple[int, ...] = ()
    correct: tuple[int, ...] = ()
    lowest: tuple[float | None, ...] | None = None
    highest: tuple[float | None, ...] | None = None
    zeroed: tuple[int, ...] | None = None
    distinct: tuple[int, ...] | None = None
    programs: tuple[int, ...] | None = None
    program_entropy: tuple[float, ...] | None = None
    meta: tuple[dict[str, Any], ...] | None = None
    values: dict[str, dict[int, tuple[float | None, ...]]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in PROBLEM_COLUMNS}
        mapping("per_problem.values", self.values)
        for metric, by_k in self.values.items():
            mapping(f"per_problem.{metric}", by_k)
            for k, column in by_k.items():
                columns[f"{metric}.{k}"] = column
        for name, column in columns.items():
            if column is None and name != "ids":
                continue
            if not is_list(column):
                raise DataError(f"per_problem.{name}: must be a list, got {shown(column)}")
            if len(column) != len(self.ids):
                raise DataError(
                    f"per_problem.{name}: must have an entry for each of the "
                    f"{counted(len(self.ids))}, got {len(column)}"
                )

    @property
    def extremes(self) -> list[float]:
        """The lowest and the highest reward of each problem, as far as they are known."""
        columns = (self.lowest or (), self.highest or ())
        return [reward for column in columns for reward in column if reward is not None]


PROBLEM_COLUMNS = [field.name for field in dataclasses.fields(PerProblem) if field.name != "values"]
"""The columns of `PerProblem` that are no metric."""


@dataclasses.dataclass(frozen=True)
class Counts:
    """How many problems, samples and samples without a reward, and how often each outcome.

    `zeroed` samples have a reward of 0 because their reward function failed; `reasons` counts why.
    """

    problems: int
    samples: int
    unscored: int
    outcomes: dict[str, int]
    zeroed: int = 0
    reasons: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def row(self) -> dict[str, int]:
        """The samples without a reward, and those with a 0 in its place, for a row of a table."""
        return {"unscored": self.unscored, "zeroed": self.zeroed}

    @property
    def lacking(self) -> str:
        """How many samples lack a reward, what becomes of them, and why; nothing if none does."""
        sentences = []
        if self.unscored:
            is_one = self.unscored == 1
            lacks = "has no reward and is left out" if is_one else "have no reward and are left out"
            sentences.append(f"{self._of_samples(self.unscored)} {lacks}")
        if self.zeroed:
            is_one = self.zeroed == 1
            counts = "counts as 0, since its reward" if is_one else "count as 0, since their reward"
            sentences.append(f"{self._of_samples(self.zeroed)} {counts} failed")
        most_frequent_first = sorted(self.reasons.items(), key=lambda reason: -reason[1])
        reasons = [
            f"{reason} ({number:,})" for reason, number in most_frequent_first[:_REASONS_SHOWN]
        ]
        if len(most_frequent_first) > _REASONS_SHOWN:
            reasons.append(f"{counted(len(most_frequent_first) - _REASONS_SHOWN, 'reason')} more")
        text = ", ".join(sentences)
        if sentences and reasons:
            text += f": {'; '.join(reasons)}"
        return text

    def _of_samples(self, number: int) -> str:
        """Return how many of the samples a number is, and their share."""
        return f"{number:,} of {counted(self.samples, 'sample')} ({number / self.samples:.1%})"


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Counts of values in bins: bin i is [i width, (i + 1) width)."""

    width: float
    counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SequenceEntropy:
    """The entropy of whole completions in nats."""

    mean: float
    histogram: Histogram


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entropy:
    """The entropy of the token distributions of the samples that know it, and their lengths."""

    unit: str = "nats"
    samples: int
    token_mean: float
    tokens_mean: float
    sequence: SequenceEntropy


@dataclasses.dataclass(frozen=True)
class Diversity:
    """Means over problems of the columns of these names in `PerProblem`; None where unknown."""

    distinct: float | None = None
    programs: float | None = None
    program_entropy: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """What `results.json` holds; `metrics` maps a metric and k to its mean over problems.

    "max@k by NAME" is there for every column of the scores that no rewarded sample lacks: the
    reward of the one of k samples that it would choose. "max@k with retry" is there for problems
    with visible tests, up to half of the samples (`retried_max_at_k`). A sample passes from the
    reward `threshold` on; `column` of the scores stood in for the reward, if one did. Raises
    DataError where a metric or the values of its problems are missing.
    """

    metrics: dict[str, dict[int, Mean]]
    interval: dict[str, Any] = dataclasses.field(default_factory=dict)
    threshold: float | None = None
    column: str | None = None
    per_problem: PerProblem
    counts: Counts
    finish_reasons: dict[str, int] | None = None
    entropy: Entropy | None
    diversity: Diversity
    manifest: dict[str, Any]

    def __post_init__(self) -> None:
        mapping("metrics", self.metrics)
        for metric in METRICS:
            if not self.metrics.get(metric):
                raise DataError(f"metrics.{metric}: is missing")
        for metric, by_k in self.metrics.items():
            mapping(f"metrics.{metric}", by_k)
        if not isinstance(self.per_problem, PerProblem):
            raise DataError(f"per_problem: must be a PerProblem, got {shown(self.per_problem)}")
        if not self.ids:
            return  # only means are known
        for metric, by_k in self.metrics.items():
            missing = by_k.keys() - self.per_problem.values.get(metric, {}).keys()
            if missing:
                raise DataError(f"per_problem.{metric}.{min(missing)}: is missing")

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the problems, in the order of their values."""
        return self.per_problem.ids

    @property
    def ks(self) -> list[int]:
        """The k of max@k."""
        return list(self.metrics["max@k"])

    @property
    def passes_from(self) -> float:
        """The reward from which a sample passes: 1 where no threshold is recorded."""
        return CEILING if self.threshold is None else self.threshold

    @property
    def cut_off(self) -> float | None:
        """The share of the samples that were cut off by their length; None where unknown."""
        if not self.finish_reasons:
            return None
        return self.finish_reasons.get("length", 0) / sum(self.finish_reasons.values())

    @property
    def uneven(self) -> str:
        """Why k ends where it does, where some problems have more samples; nothing otherwise."""
        samples = self.per_problem.samples
        largest = max(self.ks)
        with_fewest = [
            problem_id
            for problem_id, count in zip(self.ids, samples, strict=True)
            if count == largest
        ]
        if not with_fewest or max(samples) == largest:
            return ""
        who = f"{with_fewest[0]!r:.80} has"
        if len(with_fewest) > 1:
            who = f"{counted(len(with_fewest))}, the first {with_fewest[0]!r:.80}, have"
        return f"k ends at {largest:,}: {who} no more samples, others up to {max(samples):,}"

    @property
    def remarks(self) -> list[str]:
        """What a reader of the means has to know: of samples without a reward, and of the k."""
        return [sentence for sentence in (self.counts.lacking, self.uneven) if sentence]

    def recorded(self, place: str) -> Any:
        """Return what the manifest has at a place such as "settings.problems.sha256", or None."""
        return recorded(self.manifest, place)

    def to_frame(self) -> pd.DataFrame:
        """Return one row a problem, metric and k, its value NaN without one; needs pandas."""
        columns: dict[str, list[Any]] = {}
        for metric, by_k in self.per_problem.values.items():
            for k, column in by_k.items():
                values = np.array(column, dtype=np.float64)  # None: NaN
                block = {
                    "problem": self.ids,
                    "samples": self.per_problem.samples,
                    "scored": self.per_problem.scored,
                    "metric": [metric] * len(self.ids),
                    "k": [k] * len(self.ids),
                    "value": values.tolist(),
                }
                for name, cells in block.items():
                    columns.setdefault(name, []).extend(cells)
        return data_frame(columns)

    def _repr_html_(self) -> str:
        """Return the scores, and what the samples lack, for a notebook."""
        rows = [
            [metric.replace("@k", f"@{k}"), *map(_shown, (mean.mean, mean.low, mean.high))]
            for metric in METRICS
            for k, mean in self.metrics[metric].items()
        ]
        table = html_table(("metric", "mean", "95% from", "to"), rows)
        sentences = [
            f"{counted(self.counts.problems)}, {counted(self.counts.samples, 'sample')}",
            "Intervals are over problems",
        ]
        sentences += self.remarks
        return f"{table}<p>{escape('. '.join(sentences))}.</p>"

    def to_json(self) -> dict[str, Any]:
        """Return the content of `results.json`."""
        row = msgspec.to_builtins(self, str_keys=True)
        columns = row["per_problem"]
        # In the file the values of a metric stand beside the other columns, under its name.
        values = columns.pop("values")
        if self.per_problem.meta is None:
            columns.pop("meta", None)
        return {"format": FORMAT, **row, "per_problem": {**columns, **values}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any], *, place: str) -> Results:
        """Return the results of a JSON object; raises DataError with place and field for others."""
        mapping(place, row)
        columns = row.get("per_problem")
        if isinstance(columns, Mapping):
            fields = {name: columns[name] for name in PROBLEM_COLUMNS if name in columns}
            metrics = {name: by_k for name, by_k in columns.items() if name not in fields}
            columns = {**fields, "values": metrics}
        try:
            return msgspec.convert({**row, "per_problem": columns}, cls, str_keys=True)
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{place}: not a results object: {error}") from error


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def recorded_threshold(manifest: Any) -> float:
    """Return the reward from which a sample of a run passes, as its manifest says: 1 if not."""
    threshold = recorded(manifest, "threshold")
    return float(threshold) if is_finite(threshold) else CEILING


def read_results(path: Path) -> Results:
    """Return the results of a file; raises DataError naming it for a file of anything else."""
    return Results.from_json(read_json(path), place=str(path))
