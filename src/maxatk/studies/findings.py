"""The results of a study: models evaluated over several seeds, pooled, and the tests between them.

A `Study` is what `results.json` of a study holds. Tables and figures are made of it alone.
"""

from __future__ import annotations

import dataclasses
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
_TESTS = ("leaders", "differences", "pairs")
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
    evaluations: Mapping[int, Path]
    trainings: Mapping[int, Path]


@dataclasses.dataclass(frozen=True)
class Study:
    """The outcome of a study.

    `comparison` holds the models over the problems of all seeds together, the baseline first, and
    `over` says what they are tested over. `by_seed` maps model, seed, metric and k to a mean over
    the problems of that seed. `measures` are what is tested: `leaders` has the best model of a
    measure against the second best, `differences` every model against the baseline, `pairs` the
    models that the recipe pairs. Each of the three lists is corrected by itself at the level
    `alpha`. `training` maps a model and a logged quantity to its mean over a training and the
    seeds, and `levels` a model to its level on every axis.
    """

    title: str
    seeds: tuple[int, ...]
    over: Over
    levels: Mapping[str, Mapping[str, str]]
    comparison: Comparison
    measures: tuple[Measure, ...]
    leaders: tuple[PairedTest, ...]
    differences: tuple[PairedTest, ...]
    pairs: tuple[PairedTest, ...]
    alpha: float
    by_seed: Mapping[str, Mapping[str, Any]]
    training: Mapping[str, Mapping[str, float]]
    environment: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the study as a JSON object."""
        return {
            "format": STUDY_FORMAT,
            "title": self.title,
            "seeds": list(self.seeds),
            "over": self.over,
            "alpha": self.alpha,
            "models": {
                run.name: {
                    "levels": self.levels[run.name],
                    **{key: value for key, value in run.results.to_json().items() if key in _KEPT},
                    "by_seed": self.by_seed[run.name],
                    "training": self.training[run.name],
                }
                for run in self.comparison.runs
            },
            **{name: msgspec.to_builtins(getattr(self, name)) for name in _TESTS},
            "environment": self.environment,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Study:
        """Return the study of a JSON object; raises DataError for another format."""
        if value.get("format") != STUDY_FORMAT:
            raise DataError(f"study: format must be {STUDY_FORMAT}, got {value.get('format')!r}")
        models = value["models"]
        runs = tuple(
            Run(name, Results.from_json({**_NOT_KEPT, **model}, place=f"study: {name}"))
            for name, model in models.items()
        )
        ks = tuple(runs[0].results.ks)
        leaders, differences, pairs = (
            msgspec.convert(value[name], tuple[PairedTest, ...]) for name in _TESTS
        )
        return cls(
            title=value["title"],
            seeds=tuple(value["seeds"]),
            over=value["over"],
            levels={name: model["levels"] for name, model in models.items()},
            comparison=Comparison(runs, ks),
            measures=tuple(test.measure for test in leaders),
            leaders=leaders,
            differences=differences,
            pairs=pairs,
            alpha=value["alpha"],
            by_seed={name: model["by_seed"] for name, model in models.items()},
            training={name: model["training"] for name, model in models.items()},
            environment=value["environment"],
        )


def build_study(
    models: Sequence[StudiedModel],
    *,
    title: str,
    baseline: str,
    pairs: Sequence[tuple[str, str]] = (),
) -> Study:
    """Return the study of models, the results of each pooled over the problems of all its seeds.

    The tests are those of `paired_tests`: best against second best and every model against the
    baseline for both metrics at k = 1 and 128, the `pairs` of names for max@k, and for max@k by
    every stored score that all models have. Raises InvalidValueError for one model alone and for
    the name of no model, and as `load_comparison`.
    """
    if len(models) < 2:
        raise InvalidValueError(f"models: a study needs two models or more, got {len(models)}")
    seeds = tuple(models[0].evaluations)
    results = {model.name: _pooled(model) for model in models}
    together = load_comparison(results, Reading(baseline=baseline), allow_other_verifiers=False)
    comparison = with_seeds(
        together, [{model.name: model.evaluations[seed] for model in models} for seed in seeds]
    )
    ks = comparison.shown_ks(TESTED_KS)
    measures = tuple(Measure("", metric, k) for metric in METRICS for k in ks)
    rewarded = [Measure("", m, k) for m in ("max@k", *selections(comparison)) for k in ks]
    others = [(run.name, baseline) for run in comparison.others]
    ranked = {m: [run.name for run in comparison.ranked(m.metric, m.k)] for m in measures}
    return Study(
        title=title,
        seeds=seeds,
        over=comparison.over,
        levels={model.name: model.levels for model in models},
        comparison=comparison,
        measures=measures,
        leaders=_tested(comparison, [(m, best, next_) for m, (best, next_, *_) in ranked.items()]),
        differences=_tested(comparison, [(m, *pair) for m in measures for pair in others]),
        pairs=_tested(comparison, [(m, *pair) for m in rewarded for pair in pairs]),
        alpha=ALPHA,
        by_seed={model.name: _means_by_seed(comparison, model.name, seeds) for model in models},
        training={model.name: _training(model) for model in models},
        environment=environment(),
    )


def _pooled(model: StudiedModel) -> Results:
    folders = model.evaluations.items()
    return pool_results({f"seed {seed}": read_results(f / RESULTS) for seed, f in folders})


def _tested(
    comparison: Comparison, entries: Sequence[tuple[Measure, str, str]]
) -> tuple[PairedTest, ...]:
    """Return the tests of one list. Fewer than three seeds say nothing of other trainings: no p."""
    by_metric = {m.metric: paired_tests(comparison, m.metric) for m, _, _ in entries}
    tests = [by_metric[m.metric](first, second, m.k) for m, first, second in entries]
    if comparison.over == "problems":
        tests = [dataclasses.replace(test, p=None) for test in tests]
    return corrected(tests, ALPHA)


def selections(comparison: Comparison) -> list[str]:
    """Return the metrics of the models in which a stored score chooses the best of k."""
    names = set.intersection(*(set(run.results.metrics) for run in comparison.runs))
    return sorted(names.difference(METRICS))


def _means_by_seed(comparison: Comparison, name: str, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        str(seed): {
            metric: {str(k): found.mean for k, found in by_k.items()}
            for metric, by_k in of_seed.run(name).results.metrics.items()
        }
        for seed, of_seed in zip(seeds, comparison.seeds, strict=True)
    }


def _training(model: StudiedModel) -> dict[str, float]:
    """Return the means of what the trainings logged, their gradient spikes and their seconds."""
    if not model.trainings:
        return {}
    records = [read_training(folder) for folder in model.trainings.values()]
    histories = [record.get("log_history", []) for record in records]
    found = {}
    for key, _, _ in TRAINING_COLUMNS:
        values = [value for history in histories for value in _logged(history, key)]
        if values:
            found[key] = round(float(np.mean(values)), 6)
    spikes = [spike for history in histories for spike in _spikes(history)]
    if spikes:
        found[GRADIENT_SPIKES] = round(float(np.mean(spikes)), 3)
    seconds = _logged(records, "seconds")
    if seconds:
        found["seconds"] = round(float(np.mean(seconds)), 1)
    return found


def _spikes(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the 95th percentile of the logged gradient norms, in medians; none if that is 0.

    A percentile, since the largest of many logged steps is larger than that of few.
    """
    norms = _logged(history, "grad_norm")
    median = float(np.median(norms)) if norms else 0.0
    return [float(np.percentile(norms, 95)) / median] if median > 0 else []


def _logged(history: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [value for row in history if (value := known(row, key)) is not None]
