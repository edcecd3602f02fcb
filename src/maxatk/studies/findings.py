"""The findings of a study, its results.json: models pooled over seeds, their tests, and tables."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.problem_selection import selection_note
from maxatk.evaluation.results import METRICS, Results
from maxatk.folders import known, read_training
from maxatk.report import tables
from maxatk.report.comparison import ALPHA, Comparison, Over, Reading, Run, load_comparison, pooled
from maxatk.report.model_comparison import DEFAULT_KS, row_of_test, score_rows, table_of_tests
from maxatk.report.paired_tests import Measure, PairedTest, paired_tests, with_adjusted_p
from maxatk.report.run_tables import every_k, samples_table, scores_table
from maxatk.report.table_formats import TableFormat, format_table
from maxatk.report.tables import Cell, Table, TidyRow, table_of
from maxatk.studies.schedule import Place

STUDY_FORMAT = 3
_SUFFIXES: dict[TableFormat, str] = {"md": "md", "csv": "csv", "latex": "tex"}
GRADIENT_SPIKES = "grad_norm/p95_over_median"
_TESTS = {
    "differences": "model − baseline",
    "leaders": "best − second best",
    "pairs": "first − second",
}
_NOT_KEPT: Mapping[str, Any] = {"per_problem": {}, "manifest": {}}
_KEPT = ("metrics", "interval", "counts", "entropy", "diversity")  # of pooled results
# Of a training: key in its log (all but spikes and seconds), heading and decimals in the table.
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


@dataclasses.dataclass(frozen=True)
class Study:
    """The outcome of a study, as its results.json has it.

    `models` maps a model, the baseline first, to its `levels` on every axis, its results over the
    problems of all seeds, its means `by_seed`, metric and k, and those of its `training` log.
    `leaders` has the best model of every measure against the second best, `differences` every model
    against the baseline, `pairs` those of the recipe; each list is corrected by itself. `selection`
    says so where a model's own rewards chose the problems: see `selection_note`.
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
        """Return the study of a JSON object; raises DataError for another format."""
        if value.get("format") != STUDY_FORMAT:
            raise DataError(f"study: format must be {STUDY_FORMAT}, got {value.get('format')!r}")
        return msgspec.convert(value, cls)


def pooled_models(places: Sequence[Place], *, baseline: str) -> Comparison:
    """Return the comparison over all seeds; raises as `load_comparison`, and for a single model."""
    folders: dict[str, dict[str, Path]] = {}
    for place in places:
        folders.setdefault(f"seed {place.seed}", {})[place.variant.name] = place.evaluation
    seeds = {
        seed: load_comparison(found, Reading(baseline=baseline), allow_other_verifiers=False)
        for seed, found in folders.items()
    }
    comparison = pooled(seeds)
    if len(comparison.runs) < 2:
        raise InvalidValueError("models: a study needs two models or more, got 1")
    return comparison


def build_study(
    places: Sequence[Place],
    comparison: Comparison,
    *,
    title: str,
    pairs: Sequence[tuple[str, str]] = (),
) -> Study:
    """Return the study of models whose comparison is that of `pooled_models`.

    Best against second best and every model against the baseline are tested for both metrics at
    k = 1 and 128, the `pairs` for max@k, by every stored score too. Raises InvalidValueError for
    the name of no model.
    """
    ks, selections = comparison.shown_ks(DEFAULT_KS), comparison.selections
    measures = [Measure("", metric, k) for metric in METRICS for k in ks]
    rewarded = [Measure("", metric, k) for metric in ("max@k", *selections) for k in ks]
    ranked = {m: comparison.ranked(m.metric, m.k) for m in measures}
    others = [(name, comparison.baseline.name) for name in comparison.names[1:]]
    seeds = tuple(dict.fromkeys(place.seed for place in places))
    found = {}
    for run in comparison.runs:
        own = [place for place in places if place.variant.name == run.name]
        parts = zip(seeds, comparison.seeds, strict=True)
        found[run.name] = {
            "levels": own[0].variant.levels,
            **{key: getattr(run.results, key) for key in _KEPT},
            "by_seed": {seed: _means(part.run(run.name)) for seed, part in parts},
            "training": _training([place.training for place in own if place.training]),
        }
    return Study(
        title=title,
        seeds=seeds,
        over=comparison.over,
        alpha=ALPHA,
        models=msgspec.json.decode(msgspec.json.encode(found)),
        leaders=_tested(comparison, [(m, a, b) for m, (a, b, *_) in ranked.items()]),
        differences=_tested(comparison, [(m, *pair) for m in measures for pair in others]),
        pairs=_tested(comparison, [(m, *pair) for m in rewarded for pair in pairs]),
        environment=environment(),
        selection=selection_note(comparison.baseline.results.per_problem.meta),
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
        return tuple(dataclasses.replace(test, p=None) for test in tests)
    return with_adjusted_p(tests, ALPHA)


def _training(folders: Sequence[Path]) -> dict[str, float]:
    """Return the means of what the trainings logged, their gradient spikes and their seconds."""
    records = [read_training(folder) for folder in folders]
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
    """Return the 95th percentile of the logged gradient norms, in medians; none if that is 0."""
    norms = _logged(history, "grad_norm")
    median = float(np.median(norms)) if norms else 0.0
    return [float(np.percentile(norms, 95)) / median] if median > 0 else []


def _logged(history: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [value for row in history if (value := known(row, key)) is not None]


def study_tables(study: Study) -> dict[str, Table]:
    """Return the tables of a study by the name of their file.

    `scores` has the form of Tables 2 and 3 of the paper, `max_at_k`, `pass_at_k` and
    `max_at_k_by_NAME` of every stored score that chooses that of Tables 5 to 14.
    """
    comparison = study.comparison
    stars = {test.measure: test.first for test in study.leaders if test.significant}
    found = {"scores": scores_table({"": comparison}, study.measures, stars)}
    for metric in (*METRICS, *comparison.selections):
        found[re.sub(r"\W+", "_", metric.replace("@", "_at_"))] = every_k(comparison, metric)
    found["samples"], every = samples_table(comparison), found["max_at_k"]
    texts = {row[0].text: [cell.text for cell in row] for row in every.rows}
    means = {name: dict(zip(every.header, cells, strict=True)) for name, cells in texts.items()}
    if crossed := _crossed_table(study, means):
        found["crossed"] = crossed
    found["training"] = _training_table(study, means)
    found["seeds"] = _seeds_table(study)
    for name, heading in _TESTS.items():
        if tests := getattr(study, name):
            found[name] = table_of_tests(heading, tests, over=study.over)
    return found


def write_tables(study: Study, folder: Path) -> None:
    """Write every table of a study as Markdown, CSV and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in study_tables(study).items():
        for table_format, suffix in _SUFFIXES.items():
            text = format_table(table, table_format)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def study_rows(study: Study) -> dict[str, list[TidyRow]]:
    """Return the rows of "scores", of the lists of tests, and of "training"; None is no number."""
    return {
        "scores": score_rows({"": study.comparison}, study.measures),
        **{name: list(map(row_of_test, getattr(study, name))) for name in _TESTS},
        "training": [
            {"model": name, "quantity": quantity, "mean": mean}
            for name, model in study.models.items()
            for quantity, mean in model["training"].items()
        ],
    }


def _seeds_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested, of every seed less the baseline's."""
    tests = [test for test in study.differences if test.measure.metric == "max@k"]
    columns: dict[str, list[Cell | str]] = {
        f"model − {study.comparison.baseline.name}": [test.first for test in tests],
        "metric": [test.measure.name for test in tests],
    }
    for place, seed in enumerate(study.seeds):
        cells = columns[f"seed {seed}"] = []
        for moved in (test.by_seed[place] for test in tests):
            mark = "" if not moved else "above" if moved > 0 else "below"
            cells.append(Cell(tables.change(moved), mark=mark))
    columns["seeds above"] = [f"{test.above} of {len(study.seeds)}" for test in tests]
    return table_of(columns)


def _crossed_table(study: Study, means: Mapping[str, Mapping[str, str]]) -> Table | None:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    names: dict[tuple[str, str], str] = {}
    for name, model in study.models.items():
        if model["levels"]:
            (_, first), *others = model["levels"].items()
            names[first, ",".join(f"{axis}={level}" for axis, level in others)] = name
    firsts = dict.fromkeys(first for first, _ in names)
    metrics = [measure.name for measure in study.measures if measure.metric == "max@k"]
    rows = [(first, metric) for metric in metrics for first in firsts]
    columns = {"model": [first for first, _ in rows], "metric": [metric for _, metric in rows]}
    for across in dict.fromkeys(others for _, others in names if others):
        cells = (means.get(names.get((first, across), ""), {}).get(m, "–") for first, m in rows)
        columns[across] = list(cells)
    return table_of(columns) if len(columns) > 2 else None


def _training_table(study: Study, means: Mapping[str, Mapping[str, str]]) -> Table:
    trained = {name: model["training"] for name, model in study.models.items() if model["training"]}
    *_, largest = (measure.name for measure in study.measures if measure.metric == "max@k")
    return table_of(
        {
            "model": trained,
            **{
                heading: [tables.decimal(logged.get(key), digits) for logged in trained.values()]
                for key, heading, digits in TRAINING_COLUMNS
                if any(key in logged for logged in trained.values())
            },
            largest: [means[name][largest] for name in trained],
        }
    )
