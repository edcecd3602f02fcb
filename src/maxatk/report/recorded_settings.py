"""What manifests recorded of runs: their trainings and settings, and where these differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.objectives import METHODS
from maxatk.objectives.methods import Method
from maxatk.report.comparison import BASE, Comparison, Run
from maxatk.report.tables import Table, table_of, table_of_rows

_MEANT_TO_DIFFER = (
    *("model.model", "model.weights", "model.stored_dtype"),
    *("samples.sha256", "rewards.sha256"),
)
# What of an environment the numbers of two models may differ by.
_NUMERICS = ("gpu", "driver", "cuda", "torch", "transformers", "vllm", "peft")
_MACHINE = "environment."


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
