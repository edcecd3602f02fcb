"""The results of a study: models evaluated over several seeds, pooled, and the tests between them.

A `Study` is what `results.json` of a study holds. Tables and figures are made of it alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.statistics.pooling import pool_results
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.report.deciding import Measure
from maxatk.report.runs import METRICS, Comparison, Run, load_comparison
from maxatk.studies.seed_tests import SeededRuns, SeedTest, corrected

STUDY_FORMAT = 2
ALPHA = 0.05
TESTED_KS = (1, 128)
GRADIENT_SPIKES = "grad_norm/p95_over_median"
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
    `by_seed` maps model, seed, metric and k to a mean over the problems of that seed. `measures`
    are what is tested: `leaders` has the best model of a measure against the second best,
    `differences` every model against the baseline, `pairs` the models that the recipe pairs. Each
    of the three lists is corrected by itself at the level `alpha`. `training` maps a model and a
    logged quantity to its mean over a training and the seeds, and `levels` a model to its level on
    every axis.
    """

    title: str
    seeds: tuple[int, ...]
    levels: Mapping[str, Mapping[str, str]]
    comparison: Comparison
    measures: tuple[Measure, ...]
    leaders: tuple[SeedTest, ...]
    differences: tuple[SeedTest, ...]
    pairs: tuple[SeedTest, ...]
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
            "alpha": self.alpha,
            "models": {
                run.name: {
                    "levels": self.levels[run.name],
                    **{key: run.results[key] for key in _KEPT},
                    "by_seed": self.by_seed[run.name],
                    "training": self.training[run.name],
                }
                for run in self.comparison.runs
            },
            "leaders": [dataclasses.asdict(test) for test in self.leaders],
            "differences": [dataclasses.asdict(test) for test in self.differences],
            "pairs": [dataclasses.asdict(test) for test in self.pairs],
            "environment": self.environment,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Study:
        """Return the study of a JSON object; raises DataError for another format."""
        if value.get("format") != STUDY_FORMAT:
            raise DataError(f"study: format must be {STUDY_FORMAT}, got {value.get('format')!r}")
        models = value["models"]
        runs = tuple(Run(name, model) for name, model in models.items())
        ks = tuple(int(k) for k in runs[0].results["metrics"][METRICS[0]])
        leaders, differences, pairs = (
            tuple(SeedTest.from_json(test) for test in value[key])
            for key in ("leaders", "differences", "pairs")
        )
        return cls(
            title=value["title"],
            seeds=tuple(value["seeds"]),
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


def pooled(models: Sequence[StudiedModel]) -> dict[str, dict[str, Any]]:
    """Return the results of every model over the problems of all its seeds.

    Raises DataError for a file that is not a results file.
    """
    return {
        model.name: pool_results(
            {
                f"seed {seed}": read_json(folder / RESULTS)
                for seed, folder in model.evaluations.items()
            }
        )
        for model in models
    }


def build_study(
    models: Sequence[StudiedModel],
    results: Mapping[str, Mapping[str, Any]],
    *,
    title: str,
    baseline: str,
    pairs: Sequence[tuple[str, str]] = (),
) -> Study:
    """Return the study of models whose `pooled` results are given.

    The tests are over seeds (`SeedTest`): best against second best and every model against the
    baseline for both metrics at k = 1 and 128, the `pairs` of names for max@k, and for max@k by
    every stored score that all models have. Raises InvalidValueError for one model alone and for
    the name of no model, and as `load_comparison`.
    """
    if len(models) < 2:
        raise InvalidValueError(f"models: a study needs two models or more, got {len(models)}")
    runs = SeededRuns(
        load_comparison(results, baseline=baseline, allow_other_verifiers=False),
        [
            load_comparison({m.name: m.evaluations[seed] for m in models}, baseline=baseline)
            for seed in models[0].evaluations
        ],
    )
    ks = runs.together.shown_ks(TESTED_KS)
    measures = tuple(Measure("", metric, k) for metric in METRICS for k in ks)
    others = [(run.name, baseline) for run in runs.together.others]
    rewarded = ["max@k", *selections(runs.together)]
    return Study(
        title=title,
        seeds=tuple(models[0].evaluations),
        levels={model.name: model.levels for model in models},
        comparison=runs.together,
        measures=measures,
        leaders=corrected([runs.test(m, *runs.best_two(m)) for m in measures], ALPHA),
        differences=corrected([runs.test(m, *pair) for m in measures for pair in others], ALPHA),
        pairs=corrected(
            [
                runs.test(Measure("", metric, k), *pair)
                for metric in rewarded
                for k in ks
                for pair in pairs
            ],
            ALPHA,
        ),
        alpha=ALPHA,
        by_seed={model.name: _by_seed(model) for model in models},
        training={model.name: _training(model) for model in models},
        environment=environment(),
    )


def selections(comparison: Comparison) -> list[str]:
    """Return the metrics of the models in which a stored score chooses the best of k."""
    names = set.intersection(*(set(run.results["metrics"]) for run in comparison.runs))
    return sorted(names.difference(METRICS))


def split_levels(levels: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a model's level on the first axis, and its levels on the others."""
    (_, first), *others = levels.items()
    return first, dict(others)


def _by_seed(model: StudiedModel) -> dict[str, Any]:
    found = {}
    for seed, folder in model.evaluations.items():
        metrics = read_json(folder / RESULTS)["metrics"]
        found[str(seed)] = {
            metric: {k: cell["mean"] for k, cell in by_k.items()}
            for metric, by_k in metrics.items()
        }
    return found


def _training(model: StudiedModel) -> dict[str, float]:
    """Return the means of what the trainings logged, their gradient spikes and their seconds."""
    if not model.trainings:
        return {}
    records = [read_json(folder / TRAIN_RECORD) for folder in model.trainings.values()]
    histories = [record["log_history"] for record in records]
    found = {}
    for key, _, _ in TRAINING_COLUMNS:
        values = [value for history in histories for value in _logged(history, key)]
        if values:
            found[key] = round(float(np.mean(values)), 6)
    spikes = [spike for history in histories for spike in _spikes(history)]
    if spikes:
        found[GRADIENT_SPIKES] = round(float(np.mean(spikes)), 3)
    found["seconds"] = round(float(np.mean([record["seconds"] for record in records])), 1)
    return found


def _spikes(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the 95th percentile of the logged gradient norms, in medians; none if that is 0.

    A percentile, since the largest of many logged steps is larger than that of few.
    """
    norms = _logged(history, "grad_norm")
    median = float(np.median(norms)) if norms else 0.0
    return [float(np.percentile(norms, 95)) / median] if median > 0 else []


def _logged(history: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in history if key in row]
