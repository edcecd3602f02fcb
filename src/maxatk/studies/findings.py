"""The findings of a study, its results.json: models pooled over seeds, and their tests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from maxatk.check import mapping
from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.results import METRICS, Results
from maxatk.evaluation.selection_note import selection_note
from maxatk.folders import known_values, read_training
from maxatk.report.comparison import ALPHA, DEFAULT_KS, Comparison, Over, Run, pooled
from maxatk.report.load_runs import Reading, load_comparison
from maxatk.report.paired_tests import Measure, PairedTest, paired_tests, with_adjusted_p
from maxatk.studies.front import Front
from maxatk.studies.schedule import SeededModel

STUDY_FORMAT = 3
GRADIENT_SPIKES = "grad_norm/p95_over_median"
_NOT_KEPT: Mapping[str, Any] = {"per_problem": {}, "manifest": {}}
_KEPT = ("metrics", "interval", "counts", "entropy", "diversity")  # of pooled results
# Of a training: key in its log (all but spikes and seconds), heading and decimals in the table. The
# headings say over what a number is: spikes and seconds are of a whole training, with one number
# for each seed, the others are means over the logged steps of all seeds.
TRAINING_COLUMNS = (
    ("ratio/mean_abs_delta", "mean |ρ−1| over logged steps", 3),
    ("ratio/max_abs_delta", "max |ρ−1| of a step, mean over logged steps", 2),
    ("ratio/effective_samples", "effective samples, mean over logged steps", 3),
    ("clip_ratio/region_mean", "clipped tokens, mean over logged steps", 3),
    (GRADIENT_SPIKES, "gradient p95/median of a training, mean over seeds", 2),
    ("frac_groups_without_signal", "groups without signal, mean over logged steps", 3),
    ("entropy", "nats per token, mean over logged steps", 3),
    ("completions/distinct", "distinct in a group, mean over logged steps", 3),
    ("seconds", "seconds of a training, mean over seeds", 0),
)
_DIGITS = {GRADIENT_SPIKES: 3, "seconds": 1}  # that are kept of a mean; 6 of the others


@dataclasses.dataclass(frozen=True)
class Study:
    """The outcome of a study, as its results.json has it.

    `models` maps a model, the baseline first, to its `levels` on every axis, its results over the
    problems of all seeds, its means `by_seed`, metric and k, and those of its `training` log.
    `leaders` has the best model of every measure against the second best, `differences` every model
    against the baseline, `pairs` those of the recipe; each list is corrected by itself. `selection`
    says so where a model's own rewards chose the problems: see `selection_note`. `front` has every
    method at its best rate and checkpoint, if the recipe asks for it.
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
    selection: str | None = None
    front: Front | None = None

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
        return Comparison(runs)

    def to_json(self) -> dict[str, Any]:
        """Return the study as a JSON object."""
        return {"format": STUDY_FORMAT, **msgspec.to_builtins(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Study:
        """Return the study of a JSON object; raises DataError for anything else."""
        mapping("study", value)
        if value.get("format") != STUDY_FORMAT:
            raise DataError(f"study: format must be {STUDY_FORMAT}, got {value.get('format')!r}")
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise DataError(f"study: {error}") from error


def pooled_models(
    seeded_models: Sequence[SeededModel],
    *,
    baseline: str,
    ks: Sequence[int] = (),
    choosing: bool = False,
) -> Comparison:
    """Return the comparison over all seeds; raises as `load_comparison`, and for a single model.

    It has the `ks` that the samples of every problem allow, beside those of the evaluations. With
    `choosing` it is that of the evaluations by which the front is chosen.
    """
    folders: dict[str, dict[str, Path]] = {}
    for model in seeded_models:
        evaluation = model.choice if choosing else model.evaluation
        assert evaluation is not None
        folders.setdefault(f"seed {model.seed}", {})[model.variant.name] = evaluation
    seeds = _comparisons_by_seed(folders, Reading(baseline=baseline))
    runs = [run for comparison in seeds.values() for run in comparison.runs]
    fewest = min(max(run.results.ks) for run in runs)
    allowed = tuple(k for k in ks if k <= fewest)
    if any(k not in comparison.ks for comparison in seeds.values() for k in allowed):
        seeds = _comparisons_by_seed(folders, Reading(baseline=baseline, k=allowed))
    comparison = pooled(seeds)
    if len(comparison.runs) < 2:
        raise InvalidValueError("models: a study needs two models or more, got 1")
    return comparison


def _comparisons_by_seed(
    folders: Mapping[str, Mapping[str, Path]], reading: Reading
) -> dict[str, Comparison]:
    """Return the comparison of the models of every seed, whose evaluations are in folders."""
    return {
        seed: load_comparison(seed_folders, reading, allow_other_verifiers=False)
        for seed, seed_folders in folders.items()
    }


def build_study(
    seeded_models: Sequence[SeededModel],
    comparison: Comparison,
    *,
    title: str,
    pairs: Sequence[tuple[str, str]] = (),
    ks: Sequence[int] = DEFAULT_KS,
    front: Front | None = None,
) -> Study:
    """Return the study of models whose comparison is that of `pooled_models`.

    Best against second best and every model against the baseline are tested for both metrics at the
    `ks`, the `pairs` for max@k, by every stored score too: see `Comparison.shown_ks` for a k that
    not all models have. Raises InvalidValueError for the name of no model.
    """
    tested_ks = comparison.shown_ks(ks)
    rewards = ("max@k", *comparison.selections)
    measures = [Measure("", metric, k) for metric in METRICS for k in tested_ks]
    rewarded = [Measure("", metric, k) for metric in rewards for k in tested_ks]
    leaders = []
    for measure in measures:
        best, second, *_ = comparison.ranked(measure.metric, measure.k)
        leaders.append((measure, best, second))
    baseline, *others = comparison.names
    differences = [(measure, name, baseline) for measure in measures for name in others]
    planned = [(measure, *pair) for measure in rewarded for pair in pairs]
    seeds = tuple(dict.fromkeys(model.seed for model in seeded_models))
    models = {run.name: _model(run, seeded_models, seeds, comparison) for run in comparison.runs}
    return Study(
        title=title,
        seeds=seeds,
        over=comparison.over,
        alpha=ALPHA,
        models=msgspec.json.decode(msgspec.json.encode(models)),
        leaders=_tested(comparison, leaders),
        differences=_tested(comparison, differences),
        pairs=_tested(comparison, planned),
        environment=environment(),
        selection=selection_note(comparison.baseline.results.per_problem.meta),
        front=front,
    )


def _model(
    run: Run, seeded_models: Sequence[SeededModel], seeds: Sequence[int], comparison: Comparison
) -> dict[str, Any]:
    """Return what `Study.models` has of one model."""
    model_of_seeds = [model for model in seeded_models if model.variant.name == run.name]
    by_seed = {
        seed: _means(part.run(run.name)) for seed, part in zip(seeds, comparison.seeds, strict=True)
    }
    return {
        "levels": model_of_seeds[0].variant.levels,
        **{key: getattr(run.results, key) for key in _KEPT},
        "by_seed": by_seed,
        "training": _training(model_of_seeds),
    }


def _means(run: Run) -> dict[str, dict[int, float | None]]:
    return {
        metric: {k: cell.mean for k, cell in by_k.items()}
        for metric, by_k in run.results.metrics.items()
    }


def _tested(
    comparison: Comparison, entries: Sequence[tuple[Measure, str, str]]
) -> tuple[PairedTest, ...]:
    """Return the tests of one list. Fewer than three seeds say nothing of other trainings: no p."""
    # A test of two models is made for all k at once, and asked for at several.
    at_every_k = functools.cache(functools.partial(paired_tests, comparison))
    tests = []
    for measure, first, second in entries:
        by_k = at_every_k(measure.metric, first, second)
        tests.append(by_k[measure.k])
    if comparison.over == "problems":
        return tuple(dataclasses.replace(test, p=None) for test in tests)
    return with_adjusted_p(tests, ALPHA)


def _training(model_of_seeds: Sequence[SeededModel]) -> dict[str, float]:
    """Return the means of what the trainings logged, their gradient spikes and their seconds.

    Of a checkpoint they are those of the steps up to it, without seconds. A training that was
    resumed has none either: its record has those since then.
    """
    histories = []
    uninterrupted = []  # records of such trainings, which are evaluated at their end
    for model in model_of_seeds:
        if model.training is None:
            continue
        record = read_training(model.training)
        histories.append(logged_until(record, model.variant.checkpoint))
        if model.variant.checkpoint is None and "resumed_from" not in record:
            uninterrupted.append(record)
    values = {
        key: [value for history in histories for value in known_values(history, key)]
        for key, _, _ in TRAINING_COLUMNS
    }
    values[GRADIENT_SPIKES] = [spike for history in histories for spike in _spikes(history)]
    values["seconds"] = known_values(uninterrupted, "seconds")
    return {
        key: round(float(np.mean(logged)), _DIGITS.get(key, 6))
        for key, logged in values.items()
        if logged
    }


def logged_until(record: Mapping[str, Any], checkpoint: int | None) -> list[Mapping[str, Any]]:
    """Return the rows of a training's log up to the step of a checkpoint; None is its end."""
    history = record.get("log_history", [])
    if checkpoint is None:
        return list(history)
    return [row for row in history if row.get("step", 0) <= checkpoint]


def _spikes(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the 95th percentile of the logged gradient norms, in medians; none if that is 0."""
    norms = known_values(history, "grad_norm")
    median = float(np.median(norms)) if norms else 0.0
    return [float(np.percentile(norms, 95)) / median] if median > 0 else []
