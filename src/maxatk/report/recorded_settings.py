"""What manifests recorded of runs: their trainings and settings, and where these differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.objectives import METHODS
from maxatk.objectives.methods import Method
from maxatk.report.comparison import BASE, Comparison, Run
from maxatk.report.tables import Table, table_of, table_of_rows

_MACHINE = "environment."
_COUNTED = ("threshold", "problems.count", "sampling.samples")  # `_counts` says what there was
_MEANT_TO_DIFFER = (
    "model.model",
    "model.weights",
    "model.stored_dtype",
    *("samples.sha256", "samples.bytes"),  # of the files that were scored
    *("rewards.sha256", "rewards.bytes"),
)
# What trainings of two methods should have alike, and their rates each at its best.
_OF_A_FAIR_TRAINING = (
    "model",
    "problems",
    "reward",
    "max_steps",
    "num_train_epochs",
    "learning_rate",
    "num_generations",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "max_completion_length",
)
# Of a machine, what the numbers of two models may differ by.
_NUMERICS = ("gpu", "driver", "cuda", "torch", "transformers", "vllm", "peft")


def described(method: Method, k: int | None) -> str:
    """Return a line on the aim of a method's training, and its source."""
    aim = method.credit_row.statistic or "the best sample of a group"
    if k is not None and method.credit_row.uses_k:
        aim = aim.replace("@k", f"@{k}").replace("of k", f"of {k}")
    line = f"trained for {aim}"
    return f"{line} ({method.source})" if method.source else line


def models_table(comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one column a model: what it is, and its training as its manifest or `recipes` say."""
    columns = {}
    for run in comparison.runs:
        recipe = run.results.manifest.get("training") or recipes.get(run.name)
        columns[run.name] = _training_of(run.name, _mapping(recipe))
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = []
    for key in keys:
        cells = [_as_text(column.get(key)) or "–" for column in columns.values()]
        rows.append((key, *cells))
    # One row alone says of every model what it is, and nothing of any training.
    return table_of_rows(("model", *columns), rows if len(rows) > 1 else [])


def _training_of(name: str, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model is, and the settings of its trainer."""
    trainer = dict(_mapping(recipe.get("trainer")))
    method = METHODS.get(str(trainer.get("method")))
    if method is not None:
        description = described(method, trainer.get("k"))
        if not method.credit_row.uses_k:
            trainer.pop("k", None)
    elif "rounds" in recipe:  # of `maxatk distill`
        description = f"distilled from the best of {recipe.get('k')}"
    elif "method" in trainer:
        description = "trained by a method of its own"
    elif recipe:
        description = "trained by the default method"
    elif name == BASE:
        description = "the model before training"
    else:
        description = "not known: no training record"
    return {"what it is": description, **trainer}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a record as it should be: others may have written it."""
    return value if isinstance(value, Mapping) else {}


def settings_table(comparison: Comparison) -> Table:
    """Return one row a setting that was recorded, without the machine where rewards were given."""
    by_run = {run.name: {**_counts(run), **_recorded(run)} for run in comparison.runs}
    # Rewards of a file say nothing of the machine that samples came from: ours only read them.
    only_read = all(run.results.recorded("settings.rewards") for run in comparison.runs)
    keys = dict.fromkeys(key for settings in by_run.values() for key in settings)
    rows = {}
    for key in keys:
        names_of = _names_by_value(
            {name: _as_text(values.get(key)) or "not recorded" for name, values in by_run.items()}
        )
        hidden = key in _COUNTED or key.endswith(("sha256", ".bytes"))
        hidden = hidden or (only_read and key.startswith(_MACHINE))
        if hidden or names_of.keys() == {"not recorded"}:
            continue
        if len(names_of) == 1:
            (text,) = names_of
        else:
            parts = [f"{value} ({', '.join(names)})" for value, names in names_of.items()]
            text = "; ".join(parts)
        rows[key.removeprefix(_MACHINE)] = text
    return table_of({"setting": rows, "value": rows.values()})


def _names_by_value(values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that have each value, in the order of the first ones."""
    names_of: dict[str, list[str]] = {}
    for name, value in values.items():
        names_of.setdefault(value, []).append(name)
    return names_of


def _counts(run: Run) -> dict[str, str]:
    numbers = run.results.per_problem.samples
    fewest = min(numbers)
    most = max(numbers)
    samples = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    counts = {"problems": f"{run.problems:,}", "samples a problem": samples}
    if run.results.column is not None:
        counts["the reward"] = f"the column {run.results.column!r}"
    return {**counts, "a sample passes from a reward of": f"{run.results.passes_from:g}"}


def _as_text(value: Any) -> str:
    """Return a recorded value as it stands in a cell: a list of rewards by their targets."""
    if value is None:
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(_mapping(part).get("target", repr(part))) for part in value)
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    return str(value)


def _recorded(run: Run) -> dict[str, Any]:
    """Return the settings and the machine of a run, those within others as `a.b`."""
    flat: dict[str, Any] = {"threshold": run.results.passes_from}

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
    baseline = comparison.baseline
    expected = _recorded(baseline)
    lines = []
    for run in comparison.runs[1:]:
        recorded = _recorded(run)
        for key in sorted(expected.keys() | recorded.keys()):
            baseline_value = expected.get(key)
            run_value = recorded.get(key)
            if baseline_value == run_value or _may_differ(key):
                continue
            name = key.removeprefix(_MACHINE)
            lines.append(
                f"{name}: {baseline_value!r} for {baseline.name}, {run_value!r} for {run.name}"
            )
    return lines


def training_differences(
    comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return a line for every setting of `_OF_A_FAIR_TRAINING` that the trained models differ in.

    `recipes` are those of models whose manifests have none.
    """
    trained: dict[str, dict[str, Any]] = {}
    for run in comparison.runs:
        recipe = _mapping(run.results.manifest.get("training") or recipes.get(run.name))
        if recipe:
            trained[run.name] = {**recipe, **_mapping(recipe.get("trainer"))}
    lines = []
    for key in _OF_A_FAIR_TRAINING:
        names_of = _names_by_value(
            {
                name: "the default" if values.get(key) is None else str(values[key])
                for name, values in trained.items()
            }
        )
        if len(names_of) > 1:
            parts = [f"{value} for {' and '.join(names)}" for value, names in names_of.items()]
            lines.append(f"{key}: {', '.join(parts)}")
    return lines


def _may_differ(key: str) -> bool:
    if key.startswith(_MACHINE):
        return key.removeprefix(_MACHINE) not in _NUMERICS
    return key in _MEANT_TO_DIFFER
