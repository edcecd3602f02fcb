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
from maxatk.errors import DataError
from maxatk.evaluation.pooling import pool_results
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.report.comparing import (
    Column,
    ModelComparison,
    PairedTest,
    compare,
    paired_tests,
)
from maxatk.report.runs import METRICS, RESULTS, Comparison, Run

FORMAT = 1
TESTED_KS = (1, 128)
GRADIENT_SPIKES = "grad_norm/p95_over_median"
_KEPT = ("metrics", "interval", "counts", "entropy", "diversity")  # of pooled results
_LOGGED = (
    "ratio/mean_abs_delta",
    "ratio/max_abs_delta",
    "ratio/effective_samples",
    "clip_ratio/region_mean",
    "frac_groups_without_signal",
    "entropy",
    "completions/distinct",
)


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

    `compared` holds the models over the problems of all seeds together, `by_seed` maps model,
    seed, metric and k to a mean over the problems of that seed, `pairs` are the tests between
    models that the recipe pairs, `training` maps a model and a logged quantity to its mean over a
    training and the seeds, and `levels` a model to its level on every axis.
    """

    title: str
    seeds: tuple[int, ...]
    levels: Mapping[str, Mapping[str, str]]
    compared: ModelComparison
    pairs: tuple[PairedTest, ...]
    by_seed: Mapping[str, Mapping[str, Any]]
    training: Mapping[str, Mapping[str, float]]
    environment: Mapping[str, Any]

    @property
    def comparison(self) -> Comparison:
        """Return the models over the problems of all seeds, the baseline first."""
        return self.compared.comparisons[""]

    def to_json(self) -> dict[str, Any]:
        """Return the study as a JSON object."""
        return {
            "format": FORMAT,
            "title": self.title,
            "seeds": list(self.seeds),
            "alpha": self.compared.alpha,
            "models": {
                run.name: {
                    "levels": self.levels[run.name],
                    **{key: run.results[key] for key in _KEPT},
                    "by_seed": self.by_seed[run.name],
                    "training": self.training[run.name],
                }
                for run in self.comparison.runs
            },
            "leaders": [dataclasses.asdict(test) for test in self.compared.leaders],
            "differences": [dataclasses.asdict(test) for test in self.compared.differences],
            "pairs": [dataclasses.asdict(test) for test in self.pairs],
            "environment": self.environment,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Study:
        """Return the study of a JSON object; raises DataError for another format."""
        if value.get("format") != FORMAT:
            raise DataError(f"study: format must be {FORMAT}, got {value.get('format')!r}")
        models = value["models"]
        runs = tuple(Run(name, model) for name, model in models.items())
        ks = tuple(int(k) for k in runs[0].results["metrics"][METRICS[0]])
        leaders = tuple(_test(test) for test in value["leaders"])
        compared = ModelComparison(
            comparisons={"": Comparison(runs, ks)},
            columns=tuple(test.column for test in leaders),
            leaders=leaders,
            differences=tuple(_test(test) for test in value["differences"]),
            alpha=value["alpha"],
        )
        return cls(
            title=value["title"],
            seeds=tuple(value["seeds"]),
            levels={name: model["levels"] for name, model in models.items()},
            compared=compared,
            pairs=tuple(_test(test) for test in value["pairs"]),
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

    Tests are paired over the problems of all seeds: against the baseline for both metrics at k = 1
    and 128, between the `pairs` of names for max@k. Raises as `compare` and `paired_tests`.
    """
    compared = compare(results, metrics=METRICS, ks=TESTED_KS, baseline=baseline)
    columns = [column for column in compared.columns if column.metric == "max@k"]
    return Study(
        title=title,
        seeds=tuple(models[0].evaluations),
        levels={model.name: model.levels for model in models},
        compared=compared,
        pairs=paired_tests(compared, pairs, columns),
        by_seed={model.name: _by_seed(model) for model in models},
        training={model.name: _training(model) for model in models},
        environment=environment(),
    )


def split_levels(levels: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a model's level on the first axis, and its levels on the others."""
    (_, first), *others = levels.items()
    return first, dict(others)


def log_history(folder: Path) -> list[dict[str, Any]]:
    """Return the log of a training's folder."""
    history: list[dict[str, Any]] = read_json(folder / TRAIN_RECORD)["log_history"]
    return history


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
    for key in _LOGGED:
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


def _test(value: Mapping[str, Any]) -> PairedTest:
    return PairedTest(**{**value, "column": Column(**value["column"])})
