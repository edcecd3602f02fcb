"""The tables about the runs of a report: scores, verdict, samples, settings; and what they lack."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from maxatk.evaluation.results import METRICS, MOST_CUT_OFF, Results
from maxatk.objectives import METHODS
from maxatk.objectives.methods import Method
from maxatk.records import Outcome
from maxatk.report import tables
from maxatk.report.deciding import Decision, Measure
from maxatk.report.runs import BASE, Comparison, Reading, Run, Runs, comparison_of
from maxatk.report.tables import Cell, Table, table_of, table_of_rows
from maxatk.statistics.intervals import FEW_PROBLEMS

KS = (1, 8, 32, 128)
# Heading, decimals and value of what is said of the samples of a run, beside their counts.
SAMPLES_COLUMNS: tuple[tuple[str, int, Callable[[Results], float | None]], ...] = (
    ("distinct per problem", 1, lambda of: of.diversity.distinct),
    ("programs per problem", 1, lambda of: of.diversity.programs),
    ("nats of programs", 2, lambda of: of.diversity.program_entropy),
    ("nats per completion", 2, lambda of: of.entropy.sequence.mean if of.entropy else None),
    ("nats per token", 2, lambda of: of.entropy.token_mean if of.entropy else None),
    ("tokens", 1, lambda of: of.entropy.tokens_mean if of.entropy else None),
)
_MEANT_TO_DIFFER = (
    *("model.model", "model.weights", "model.stored_dtype"),
    *("samples.sha256", "rewards.sha256"),
)
# What of an environment the numbers of two models may differ by.
_NUMERICS = ("gpu", "driver", "cuda", "torch", "transformers", "vllm", "peft")
_MACHINE = "environment."


def overview_table(results: Runs, *, ks: Sequence[int] = ()) -> Table:
    """Return max@k and pass@k of every run at `ks`, else at `KS`; raises as `load_comparison`."""
    comparison = comparison_of(results, Reading(k=tuple(ks)))
    shown = comparison.shown_ks(ks or KS)
    return scores_table({"": comparison}, [Measure("", m, k) for m in METRICS for k in shown])


def every_k(comparison: Comparison, metric: str) -> Table:
    """Return a metric of every run at every k, shaded by column as Tables 5 to 14 of the paper."""
    measures = [Measure("", metric, k) for k in comparison.ks]
    return scores_table({"": comparison}, measures, shade=True)


def scores_table(
    comparisons: Mapping[str, Comparison],
    measures: Sequence[Measure],
    stars: Mapping[Measure, str] = MappingProxyType({}),
    *,
    shade: bool = False,
) -> Table:
    """Return one row a model, one column a benchmark and metric, as Tables 2 and 3 of the paper.

    The best two of a column are marked, or it is shaded; `stars` has the models with a star.
    """
    columns: dict[str, Sequence[Cell | str]] = {"model": next(iter(comparisons.values())).names}
    for measure in measures:
        comparison = comparisons[measure.benchmark]
        columns[measure.name] = tables.metric_cells(
            {run.name: run.metric(measure.metric, measure.k) for run in comparison.runs},
            of=comparison.baseline.problems,
            starred=stars.get(measure, ""),
            shade=shade,
        )
    for name, comparison in comparisons.items():
        counts = [run.results.counts for run in comparison.runs]
        lacking = [(of.unscored + of.zeroed, of.samples) for of in counts]
        if any(number for number, _ in lacking):
            shares = [f"{number:,} ({number / samples:.1%})" for number, samples in lacking]
            columns[f"{name} no reward".strip()] = shares
    return table_of(columns)


def groups_table(groups: Mapping[str, Results], *, heading: str, ks: Sequence[int]) -> Table:
    """Return max@k and pass@k over groups of problems, one row a group; nothing is compared."""
    found = Comparison(tuple(Run(name, results) for name, results in groups.items()))
    columns = {
        Measure("", metric, k).name: [tables.mean_cell(run.metric(metric, k)) for run in found.runs]
        for metric in METRICS
        for k in found.shown_ks(ks)
    }
    return table_of({heading: groups, **columns})


def samples_table(comparison: Comparison) -> Table:
    """Return what became of the samples: counts, outcomes, distinct completions, entropy."""
    found = [run.results for run in comparison.runs]
    columns = {"model": comparison.names, "samples": [f"{one.counts.samples:,}" for one in found]}
    for name in sorted({outcome for one in found for outcome in one.counts.outcomes}):
        columns[name.replace("_", " ")] = [f"{of.counts.outcomes.get(name, 0):,}" for of in found]
    columns["unscored"] = [f"{one.counts.unscored:,}" for one in found]
    if any(one.cut_off is not None for one in found):
        columns["cut off"] = ["" if one.cut_off is None else f"{one.cut_off:.1%}" for one in found]
    for heading, digits, value in SAMPLES_COLUMNS:
        columns[heading] = [tables.decimal(value(one), digits) for one in found]
    return table_of(columns)


def outcomes_table(results: Results) -> Table:
    """Return one row an outcome that occurred, and last the samples without a reward, if any."""
    counts = results.counts
    found = {**counts.outcomes, **({"unscored": counts.unscored} if counts.unscored else {})}
    numbers = {name: found[name] for name in (*map(str, Outcome), "unscored") if name in found}
    return table_of(
        {
            "outcome": numbers,
            "samples": [f"{number:,}" for number in numbers.values()],
            "share": [f"{number / counts.samples:.1%}" for number in numbers.values()],
        }
    )


def winners(decision: Decision) -> Table:
    """Return the models that are best at some k: where each is "best", and where "tied" with it."""
    names = list(dict.fromkeys(name for leaders in decision.leaders.values() for name in leaders))
    columns: dict[str, Sequence[Cell | str]] = {"best of N": names}
    for k, (best, *tied) in decision.leaders.items():
        words = ("best" if name == best else "tied" if name in tied else "" for name in names)
        columns[str(k)] = [Cell(word, mark=word) for word in words]
    return table_of(columns)


def described(method: Method, k: int | None) -> str:
    """Return a line on what a method trains for, and its source."""
    aim = method.credit_row.statistic or "the best sample of a group"
    if k is not None and method.credit_row.uses_k:
        aim = aim.replace("@k", f"@{k}").replace("of k", f"of {k}")
    return f"trained for {aim}" + (f" ({method.source})" if method.source else "")


def models_table(comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one column a model: what it is, and its training as its manifest or `recipes` say."""
    trainers: dict[str, dict[str, Any]] = {}
    for run in comparison.runs:
        recipe = run.results.manifest.get("training") or recipes.get(run.name)
        trainer = dict(_mapping(_mapping(recipe).get("trainer")))
        method = METHODS.get(str(trainer.get("method")))
        what = "the model before training" if run.name == BASE else "not known: no training record"
        if method is not None:
            what = described(method, trainer.get("k"))
            if not method.credit_row.uses_k:
                trainer.pop("k", None)
        trainers[run.name] = {"what it is": what, **trainer}
    keys = dict.fromkeys(key for trainer in trainers.values() for key in trainer)
    rows = [(key, *(_plain(found.get(key)) or "–" for found in trainers.values())) for key in keys]
    return table_of_rows(("model", *trainers), rows if len(rows) > 1 else [])


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a record as it should be: others may have written it."""
    return value if isinstance(value, Mapping) else {}


def settings_table(comparison: Comparison) -> Table:
    """Return one row a setting that was recorded, without the machine where rewards were given."""
    given = all(run.results.recorded("settings.rewards") for run in comparison.runs)
    found = {}
    for run in comparison.runs:
        numbers = run.results.per_problem.samples
        samples = " to ".join(f"{n:,}" for n in dict.fromkeys((min(numbers), max(numbers))))
        counts = {"problems": f"{run.problems:,}", "samples a problem": samples}
        found[run.name] = {**counts, **_recorded(run)}
    rows = {}
    for key in dict.fromkeys(key for settings in found.values() for key in settings):
        by_value: dict[str, list[str]] = {}
        for name, settings in found.items():
            by_value.setdefault(_plain(settings.get(key)) or "not recorded", []).append(name)
        hidden = key.endswith("sha256") or (given and key.startswith(_MACHINE))
        if by_value.keys() != {"not recorded"} and not hidden:
            said = [f"{value} ({', '.join(names)})" for value, names in by_value.items()]
            rows[key.removeprefix(_MACHINE)] = "; ".join(said if len(said) > 1 else by_value)
    return table_of({"setting": rows, "value": rows.values()})


def _plain(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(_mapping(part).get("target", repr(part))) for part in value)
    large = isinstance(value, int) and value >= 10_000
    return "" if value is None else f"{value:,}" if large else str(value)


def _recorded(run: Run) -> dict[str, Any]:
    """Return the settings and the machine of a run, those within others as `a.b`."""
    flat: dict[str, Any] = {}

    def add(value: Any, name: str) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                add(inner, f"{name}{key}.")
        else:
            flat[name.removesuffix(".")] = value

    add(run.results.recorded("settings") or {}, "")
    add(run.results.recorded("environment") or {}, _MACHINE)
    return flat


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to know; `id` is that of its element on the page, `lines` are about single runs."""

    id: str
    text: str
    lines: Sequence[str] = ()


def notices(comparison: Comparison) -> list[Notice]:
    """Return what a reader should know of these runs before any number."""
    runs = comparison.runs
    lacking = [f"{run.name}: {said}." for run in runs if (said := run.results.counts.lacking)]
    cut_off = [
        f"{run.name} has {share:.1%} of its samples cut off by their length, so that its metrics "
        "say much about sampling.max_new_tokens."
        for run in runs
        if (share := run.results.cut_off) is not None and share > MOST_CUT_OFF
    ]
    differing = setting_differences(comparison)
    found = [
        Notice("setting-differences", "The runs differ in more than the model:", differing),
        Notice("cut-off", "Samples were cut off:", cut_off),
        Notice("unscored", "Samples without a reward:", lacking),
    ]
    found = [notice for notice in found if notice.lines]
    problems = comparison.baseline.problems
    if problems < FEW_PROBLEMS:
        text = "there is no interval."
        if problems > 1:
            text = (
                "intervals are Student's t. Where most problems are at the ceiling of 1 even these "
                "are too narrow: the tables say how many are below it."
            )
        found.append(Notice("few-problems", f"With {tables.counted(problems)} only, {text}"))
    return found


def setting_differences(comparison: Comparison) -> list[str]:
    """Return a line for every setting, GPU or version but the model that is not the baseline's."""
    base, first = comparison.baseline.name, _recorded(comparison.baseline)
    lines = []
    for run in comparison.runs[1:]:
        mine = _recorded(run)
        for key in sorted(first.keys() | mine.keys()):
            name, values = key.removeprefix(_MACHINE), (first.get(key), mine.get(key))
            meant = key in _MEANT_TO_DIFFER or (name != key and name not in _NUMERICS)
            if not meant and values[0] != values[1]:
                lines.append(f"{name}: {values[0]!r} for {base}, {values[1]!r} for {run.name}")
    return lines
