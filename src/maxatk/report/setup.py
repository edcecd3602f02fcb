"""What was compared: what every model is, and the settings it was evaluated with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from maxatk.objectives import METHODS
from maxatk.objectives.methods import BASELINES, Method
from maxatk.report.cells import Column, Table, tabulate, text_column
from maxatk.report.runs import Comparison, Run
from maxatk.report.style import BASE

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
    ("learning_rate", "learning rate {}"),
    ("beta", "KL weight {}"),
    ("epsilon", "clip {}"),
    ("seed", "seed {}"),
)
"""Keys of a recipe's `trainer` and how they are said."""

_SETTINGS: tuple[tuple[str, str], ...] = (
    ("problems from", "problems_file"),
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
"""Further rows of the table of settings: the heading, and where the value is in a manifest."""


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

    def trainer(run: Run) -> Mapping[str, Any]:
        recipe = run.results["manifest"].get("training") or recipes.get(run.name) or {}
        found: Mapping[str, Any] = recipe.get("trainer") or {}
        return found

    columns: list[Column[Run]] = [
        text_column("model", lambda run: run.name),
        text_column("what it is", lambda run: _what(run, trainer(run))),
        text_column("method", lambda run: str(trainer(run).get("method", "–"))),
        text_column("k of training", lambda run: _k(trainer(run))),
        text_column("training", lambda run: _training(trainer(run))),
        text_column("evaluated", lambda run: _evaluated(run.results["manifest"])),
    ]
    return tabulate(columns, comparison.runs)


def _what(run: Run, trainer: Mapping[str, Any]) -> str:
    method = METHODS.get(str(trainer.get("method")))
    if method is not None:
        return described(method, trainer.get("k"))
    return "the model before training" if run.name == BASE else "not known: no training record"


def _k(trainer: Mapping[str, Any]) -> str:
    method = METHODS.get(str(trainer.get("method")))
    return str(trainer.get("k", "–")) if method is not None and method.kind.uses_k else "–"


def _training(trainer: Mapping[str, Any]) -> str:
    if trainer.get("max_steps", -1) > 0:
        length = [f"{trainer['max_steps']} steps"]
    else:
        length = [f"{trainer['num_train_epochs']} epochs"] if "num_train_epochs" in trainer else []
    said = [text.format(trainer[key]) for key, text in _TRAINING if key in trainer]
    return ", ".join([*length, *said]) or "–"


def settings_table(comparison: Comparison) -> Table:
    """Return one row a setting of the evaluations; where runs differ it says whose value is whose.

    Settings that no run recorded are left out.
    """
    rows = [("problems", _together({run.name: f"{run.problems:,}" for run in comparison.runs}))]
    samples = {run.name: _samples(run) for run in comparison.runs}
    rows.append(("samples a problem", _together(samples)))
    for heading, key in _SETTINGS:
        values = {run.name: _value(run.results["manifest"], key) for run in comparison.runs}
        if any(values.values()):
            rows.append((heading, _together(values)))
    columns: list[Column[tuple[str, str]]] = [
        text_column("setting", lambda row: row[0]),
        text_column("value", lambda row: row[1]),
    ]
    return tabulate(columns, rows)


def _samples(run: Run) -> str:
    counts = run.results["per_problem"]["samples"]
    few, many = min(counts), max(counts)
    return f"{few:,}" if few == many else f"{few:,} to {many:,}"


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
    """Return what was evaluated: the model without its folders, or the file of samples."""
    model = manifest.get("settings", {}).get("model")
    if isinstance(model, Mapping) and model.get("model"):
        name = str(model["model"])
        shown = PurePath(name).name if PurePath(name).is_absolute() else name
        return f"{shown}, weights {model['weights']}" if model.get("weights") else shown
    return PurePath(str(manifest.get("samples_file", "–"))).name
