"""The results of a study: models evaluated over several seeds, pooled, and the tests between them.

A `Study` is what `results.json` of a study holds. Tables and figures are made of it alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.pooling import pool_results
from maxatk.evaluation.results import Results, read_results
from maxatk.folders import known, read_training
from maxatk.report.deciding import Measure, PairedTest, corrected, paired_tests
from maxatk.report.runs import (
    ALPHA,
    METRICS,
    Comparison,
    Over,
    Reading,
    Run,
    load_comparison,
    with_seeds,
)

STUDY_FORMAT = 3
TESTED_KS = (1, 128)
GRADIENT_SPIKES = "grad_norm/p95_over_median"
_NOT_KEPT: Mapping[str, Any] = {"per_problem": {}, "manifest": {}}
_KEPT = ("metrics", "interval", "counts", "entropy", "diversity")  # of pooled results
TRAINING_COLUMNS = (
    ("ratio/mean_abs_delta", "mean |ρ−1|", 3),
    ("ratio/max_abs_delta", "max |ρ−1|", 2),
    ("ratio/effective_samples", "effective samples", 3),
    ("clip_ratio/region_mean", "clipped tokens", 3),
    (GRADIENT_SPIKES, "gradient p95/median", 2),
    ("frac_groups_without_signal", "groups without signal", 3),
    ("entropy", "nats per token", 3),
    ("completions/distinct", "distinct in a group", 3),
    ("seconds", "seconds", 0),
)
"""Of a training: key in its log (all but spikes and seconds), heading and decimals in the table."""


@dataclasses.dataclass(frozen=True)
class StudiedModel:
    """One model of a study: its level on every axis, and its folders by seed."""

    name: str
    levels: Mapping[str, str]
    evaluations: dict[int, Path]
    trainings: dict[int, Path]


@dataclasses.dataclass(frozen=True)
class Study:
    """The outcome of a study, as its results.json has it.

    `over` says what its models are tested over. `models` maps a model, the baseline first, to its
    `levels` on every axis, its results over the problems of all seeds together, its means
    `by_seed`, metric and k, and the means of what was logged in `training` over the seeds.
    `leaders` has the best model of every measure against the second best, `differences` every model
    against the baseline, `pairs` the models that the recipe pairs. Each of the three lists is
    corrected by itself at the level `alpha`.
    """

    title: str
    seeds: tuple[int, ...]
    over: Over
    alpha: float
    models: Mapping[str, Mapping[str, Any]]
    leaders: tuple[PairedTest, ...]
    differences: tuple[PairedTest, ...]
    pairs: tuple[PairedTest, ...]
    environment: Mapping[str, Any]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is tested."""
        return tuple(test.measure for test in self.leaders)

    @functools.cached_property
    def comparison(self) -> Comparison:
        """The models without their problems, the baseline first."""
        runs = tuple(
            Run(name, Results.from_json({**_NOT_KEPT, **model}, place=f"study: {name}"))
            for name, model in self.models.items()
        )
        return Comparison(runs, tuple(runs[0].results.ks))

    def to_json(self) -> dict[str, Any]:
        """Return the study as a JSON object."""
        return {"format": STUDY_FORMAT, **msgspec.to_builtins(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Study:
        """Return the study of a JSON object; raises DataError for another one."""
        if value.get("format") != STUDY_FORMAT:
            raise DataError(f"study: format must be {STUDY_FORMAT}, got {value.get('format')!r}")
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise DataError(f"study: {error}") from error


def pooled(models: Sequence[StudiedModel], *, baseline: str) -> Comparison:
    """Return the comparison of models over the problems of all seeds, and over those of each seed.

    Raises InvalidValueError for one model alone, and as `load_comparison`.
    """
    if len(models) < 2:
        raise InvalidValueError(f"models: a study needs two models or more, got {len(models)}")
    together = {}
    for model in models:
        parts = {f"seed {s}": read_results(f / RESULTS) for s, f in model.evaluations.items()}
        together[model.name] = pool_results(parts)
    comparison = load_comparison(together, Reading(baseline=baseline), allow_other_verifiers=False)
    by_seed = [{m.name: m.evaluations[seed] for m in models} for seed in models[0].evaluations]
    return with_seeds(comparison, by_seed)


def build_study(
    models: Sequence[StudiedModel],
    comparison: Comparison,
    *,
    title: str,
    pairs: Sequence[tuple[str, str]] = (),
) -> Study:
    """Return the study of models whose comparison is that of `pooled`.

    The tests are those of `paired_tests`: best against second best and every model against the
    baseline for both metrics at k = 1 and 128, the `pairs` of names for max@k, and for max@k by
    every stored score that all models have. Raises InvalidValueError for the name of no model.
    """
    of, seeds = {model.name: model for model in models}, tuple(models[0].evaluations)
    ks = comparison.shown_ks(TESTED_KS)
    measures = [Measure("", metric, k) for metric in METRICS for k in ks]
    rewarded = [Measure("", metric, k) for metric in ("max@k", *selections(comparison)) for k in ks]
    others = [(run.name, comparison.baseline.name) for run in comparison.others]
    ranked = {m: [run.name for run in comparison.ranked(m.metric, m.k)] for m in measures}
    found = {
        run.name: {
            "levels": of[run.name].levels,
            **{key: getattr(run.results, key) for key in _KEPT},
            "by_seed": {
                seed: _means(part.run(run.name))
                for seed, part in zip(seeds, comparison.seeds, strict=True)
            },
            "training": _training(of[run.name]),
        }
        for run in comparison.runs
    }
    return Study(
        title=title,
        seeds=seeds,
        over=comparison.over,
        alpha=ALPHA,
        models=msgspec.json.decode(msgspec.json.encode(found)),
        leaders=_tested(comparison, [(m, best, next_) for m, (best, next_, *_) in ranked.items()]),
        differences=_tested(comparison, [(m, *pair) for m in measures for pair in others]),
        pairs=_tested(comparison, [(m, *pair) for m in rewarded for pair in pairs]),
        environment=environment(),
    )


def _means(run: Run) -> dict[str, dict[int, float | None]]:
    means = run.results.metrics.items()
    return {metric: {k: found.mean for k, found in by_k.items()} for metric, by_k in means}


def _tested(
    comparison: Comparison, entries: Sequence[tuple[Measure, str, str]]
) -> tuple[PairedTest, ...]:
    """Return the tests of one list. Fewer than three seeds say nothing of other trainings: no p."""
    at_every_k = functools.cache(functools.partial(paired_tests, comparison))
    tests = [at_every_k(m.metric, first, second)[m.k] for m, first, second in entries]
    if comparison.over == "problems":
        tests = [dataclasses.replace(test, p=None) for test in tests]
    return corrected(tests, ALPHA)


def selections(comparison: Comparison) -> list[str]:
    """Return the metrics of the models in which a stored score chooses the best of k."""
    names = set.intersection(*(set(run.results.metrics) for run in comparison.runs))
    return sorted(names.difference(METRICS))


def _training(model: StudiedModel) -> dict[str, float]:
    """Return the means of what the trainings logged, their gradient spikes and their seconds."""
    records = [read_training(folder) for folder in model.trainings.values()]
    histories = [record.get("log_history", []) for record in records]
    values = {
        key: [value for history in histories for value in _logged(history, key)]
        for key, _, _ in TRAINING_COLUMNS
    }
    values[GRADIENT_SPIKES] = [spike for history in histories for spike in _spikes(history)]
    values["seconds"] = _logged(records, "seconds")
    digits = {GRADIENT_SPIKES: 3, "seconds": 1}
    return {
        key: round(float(np.mean(found)), digits.get(key, 6))
        for key, found in values.items()
        if found
    }


def _spikes(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the 95th percentile of the logged gradient norms, in medians; none if that is 0.

    A percentile, since the largest of many logged steps is larger than that of few.
    """
    norms = _logged(history, "grad_norm")
    median = float(np.median(norms)) if norms else 0.0
    return [float(np.percentile(norms, 95)) / median] if median > 0 else []


def _logged(history: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [value for row in history if (value := known(row, key)) is not None]
