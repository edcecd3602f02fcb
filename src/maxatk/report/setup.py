"""What was compared: what every model is, and the settings it was evaluated with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from maxatk.objectives import METHODS
from maxatk.objectives.methods import BASELINES, Method
from maxatk.report.cells import Cell, Column, Table, tabulate, text_column
from maxatk.report.runs import Comparison, Run

_SCALES = {
    "std": "divided by the standard deviation of the group",
    "mean": "divided by the mean of the group",
    "subset_std": "divided by the standard deviation over subsets",
}
_CORRECTIONS = {
    "first_order": "first-order correction for samples of an older policy",
    "exact": "exact correction for samples of an older policy",
}
_TRAINING = (
    ("num_generations", "{} samples a prompt"),
    ("num_iterations", "{} optimizer steps per rollout batch"),
    ("learning_rate", "learning rate {:g}"),
    ("beta", "KL weight {:g}"),
    ("epsilon", "clip {:g}"),
    ("seed", "seed {}"),
)
"""Keys of a recipe's `trainer` and how they are said."""

_SETTINGS: tuple[tuple[str, str], ...] = (
    ("problems", "settings.problems.count"),
    ("problems from", "problems_file"),
    ("samples a problem", "settings.sampling.samples"),
    ("temperature", "settings.sampling.temperature"),
    ("top-p", "settings.sampling.top_p"),
    ("top-k", "settings.sampling.top_k"),
    ("new tokens, at most", "settings.sampling.max_new_tokens"),
    ("stop texts", "settings.sampling.stop"),
    ("prompt template", "settings.model.prompt.template"),
    ("system prompt", "settings.model.prompt.system"),
    ("seed of the samples", "settings.sampling.seed"),
    ("reward", "settings.reward"),
    ("CPU seconds a test", "settings.verifier.time_limit_s"),
    ("memory a test, MiB", "settings.verifier.memory_limit_bytes"),
    ("backend", "settings.model.name"),
    ("weights as", "settings.model.dtype"),
    ("device", "settings.model.device"),
    ("maxatk", "environment.maxatk"),
    ("commit", "environment.commit"),
    ("Python", "environment.python"),
    ("torch", "environment.torch"),
    ("transformers", "environment.transformers"),
    ("vLLM", "environment.vllm"),
    ("machine", "environment.cpu"),
)
"""Rows of the table of settings: the heading, and where the value is in a manifest."""


def described(method: Method, k: int | None) -> str:
    """Return a line on what a method is: what it raises, by which baseline, and its source."""
    aim = method.kind.statistic or "reward of the best sample of a group"
    if k is not None and method.kind.uses_k:
        aim = aim.replace("@k", f"@{k}").replace("of k", f"of {k}")
    parts = [
        f"raises the {aim}",
        *([] if method.baseline == "none" else [f"less {BASELINES[method.baseline].formula}"]),
        *([_SCALES[method.scale]] if method.scale in _SCALES else []),
        *([_CORRECTIONS[method.correction]] if method.correction in _CORRECTIONS else []),
    ]
    return ", ".join(parts) + (f" ({method.source})" if method.source else "")


def models_table(comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one row a model: what it is, its method and k, and how it was trained.

    `recipes` are those of trainings by the name of the model, for runs whose manifest has none.
    """

    def recipe(run: Run) -> Mapping[str, Any]:
        found = run.results["manifest"].get("training") or recipes.get(run.name) or {}
        return found if isinstance(found, Mapping) else {}

    def trainer(run: Run) -> Mapping[str, Any]:
        return recipe(run).get("trainer") or {}

    def method(run: Run) -> str:
        return str(trainer(run).get("method", "")) or "–"

    def k(run: Run) -> str:
        known = METHODS.get(method(run))
        uses_k = known is not None and known.kind.uses_k
        return str(trainer(run).get("k", "–")) if uses_k else "–"

    def what(run: Run) -> str:
        known = METHODS.get(method(run))
        if known is not None:
            return described(known, trainer(run).get("k"))
        return (
            "the model before training" if run.name == "base" else "not known: no training record"
        )

    def training(run: Run) -> str:
        found = trainer(run)
        steps = [f"{found['max_steps']} steps"] if found.get("max_steps", -1) > 0 else []
        epochs = [f"{found['num_train_epochs']} epochs"] if "num_train_epochs" in found else []
        said = [text.format(found[key]) for key, text in _TRAINING if key in found]
        return ", ".join([*(steps or epochs), *said]) or "–"

    columns: list[Column[Run]] = [
        text_column("model", lambda run: run.name),
        text_column("what it is", what),
        text_column("method", method),
        text_column("k of training", k),
        text_column("training", training),
        text_column("evaluated", lambda run: _evaluated(run.results["manifest"])),
    ]
    return tabulate(columns, comparison.runs)


def settings_table(comparison: Comparison) -> Table:
    """Return one row a setting of the evaluations; where runs differ it says whose value is whose.

    Settings that no run recorded are left out.
    """
    rows: list[tuple[str, str]] = []
    for heading, key in _SETTINGS:
        values = {run.name: _value(run.results["manifest"], key) for run in comparison.runs}
        if any(values.values()):
            rows.append((heading, _together(values)))
    for run in comparison.runs[:1]:
        samples = run.results["counts"]["samples"] / max(1, run.problems)
        if "samples a problem" not in [heading for heading, _ in rows]:
            rows.insert(0, ("samples a problem", f"{samples:g}"))
        if "problems" not in [heading for heading, _ in rows]:
            rows.insert(0, ("problems", f"{run.problems:,}"))
    columns = [
        Column[tuple[str, str]]("setting", lambda row: Cell(row[0])),
        Column[tuple[str, str]]("value", lambda row: Cell(row[1])),
    ]
    return tabulate(columns, rows)


def _together(values: Mapping[str, str]) -> str:
    by_value: dict[str, list[str]] = {}
    for name, value in values.items():
        by_value.setdefault(value or "not recorded", []).append(name)
    if len(by_value) == 1:
        return next(iter(by_value))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in by_value.items())


def _value(manifest: Mapping[str, Any], key: str) -> str:
    found: Any = manifest
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return _SHOWN.get(key, _plain)(found)


def _plain(value: Any) -> str:
    if value is None or value == [] or value == "":
        return ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(repr, value))
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _rewards(value: Any) -> str:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return _plain(value)
    return ", ".join(str(part.get("target", part)) for part in value if isinstance(part, Mapping))


def _top_k(value: Any) -> str:
    return _plain(value) if value else ""


_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "settings.reward": _rewards,
    "settings.sampling.top_k": _top_k,
    "settings.verifier.memory_limit_bytes": lambda value: f"{value >> 20:,}" if value else "",
    "environment.commit": lambda value: str(value or "")[:12],
}


def _evaluated(manifest: Mapping[str, Any]) -> str:
    """Return what was evaluated: the end of the model's path or the file of samples or rewards."""
    settings = manifest.get("settings", {})
    model = settings.get("model", {})
    if isinstance(model, Mapping) and model.get("model"):
        weights = model.get("weights")
        name = (
            PurePath(str(model["model"])).name if "/" in str(model["model"])[:1] else model["model"]
        )
        return f"{name}" + (f", weights {weights}" if weights else "")
    for key in ("samples_file", "rewards_file", "problems_file"):
        if manifest.get(key):
            return PurePath(str(manifest[key])).name
    return "–"
