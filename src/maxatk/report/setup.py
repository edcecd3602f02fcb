"""What was compared: what every model is, and the settings it was evaluated with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from maxatk.evaluation.results import Results
from maxatk.objectives import METHODS
from maxatk.objectives.methods import Method
from maxatk.report.runs import BASE, Comparison, Run
from maxatk.report.tables import Table, table_of, transposed

_TRAINING = (
    ("max_steps", "{} steps"),
    ("num_train_epochs", "{} epochs"),
    ("num_generations", "{} samples a prompt"),
    ("num_iterations", "{} optimizer steps per rollout batch"),
    ("learning_rate", "learning rate {}"),
    ("beta", "KL weight {}"),
    ("epsilon", "clip {}"),
    ("seed", "seed {}"),
)
"""Keys of a recipe's `trainer` and how they are said."""

_SETTINGS: Mapping[str, str] = {
    "problems from": "problems_file",
    "temperature": "settings.sampling.temperature",
    "top-p": "settings.sampling.top_p",
    "top-k": "settings.sampling.top_k",
    "new tokens, at most": "settings.sampling.max_new_tokens",
    "stop texts": "settings.sampling.stop",
    "prompt template": "settings.model.prompt.template",
    "system prompt": "settings.model.prompt.system",
    "seed of the samples": "settings.sampling.seed",
    "reward": "settings.reward",
    "CPU seconds a test": "settings.verifier.time_limit_s",
    "memory a test, bytes": "settings.verifier.memory_limit_bytes",
    "backend": "settings.model.name",
    "weights as": "settings.model.dtype",
    "device": "settings.model.device",
    "maxatk": "environment.maxatk",
    "commit": "environment.commit",
    "Python": "environment.python",
    "torch": "environment.torch",
    "transformers": "environment.transformers",
    "vLLM": "environment.vllm",
    "machine": "environment.cpu",
    "GPU": "environment.gpu",
    "driver": "environment.driver",
    "CUDA": "environment.cuda",
}
"""Further rows of the table of settings: the heading, and where the value is in a manifest."""


def described(method: Method, k: int | None) -> str:
    """Return a line on what a method trains for, and its source."""
    aim = method.kind.statistic or "the best sample of a group"
    if k is not None and method.kind.uses_k:
        aim = aim.replace("@k", f"@{k}").replace("of k", f"of {k}")
    return f"trained for {aim}" + (f" ({method.source})" if method.source else "")


def models_table(comparison: Comparison, recipes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one column a model: what it is, its method and k, and how it was trained.

    `recipes` are those of trainings by the name of the model, for runs whose manifest has none.
    """

    def trainer(run: Run) -> Mapping[str, Any]:
        recipe = run.results.manifest.get("training") or recipes.get(run.name)
        return _mapping(_mapping(recipe).get("trainer"))

    trainers = {run.name: trainer(run) for run in comparison.runs}
    trained = any(trainers.values())
    table = table_of(
        {
            "model": trainers,
            "what it is": [
                _what(name, found) if trained else "" for name, found in trainers.items()
            ],
            "method": [str(found.get("method", "–")) for found in trainers.values()],
            "k of training": map(_k, trainers.values()),
            "training": map(_training, trainers.values()),
            "evaluated": [_evaluated(run.results) for run in comparison.runs],
        }
    )
    return transposed(table)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a record as it should be: others may have written it."""
    return value if isinstance(value, Mapping) else {}


def _what(name: str, trainer: Mapping[str, Any]) -> str:
    method = METHODS.get(str(trainer.get("method")))
    if method is not None:
        return described(method, trainer.get("k"))
    return "the model before training" if name == BASE else "not known: no training record"


def _k(trainer: Mapping[str, Any]) -> str:
    method = METHODS.get(str(trainer.get("method")))
    return str(trainer.get("k", "–")) if method is not None and method.kind.uses_k else "–"


def _training(trainer: Mapping[str, Any]) -> str:
    steps = trainer.get("max_steps")
    unused = "num_train_epochs" if isinstance(steps, int) and steps > 0 else "max_steps"
    known = trainer.keys() - {unused}
    said = [text.format(trainer[key]) for key, text in _TRAINING if key in known]
    return ", ".join(said) or "–"


def settings_table(comparison: Comparison) -> Table:
    """Return one row a setting of the evaluations; where runs differ it says whose value is whose.

    Settings that no run recorded are left out, and so is the machine where all rewards were given.
    """
    given = all(run.results.recorded("settings.rewards") for run in comparison.runs)
    rows = {
        "problems": {run.name: f"{run.problems:,}" for run in comparison.runs},
        "samples a problem": {run.name: _samples(run) for run in comparison.runs},
    }
    for heading, key in _SETTINGS.items():
        if given and key.startswith("environment."):
            continue
        values = {run.name: _plain(run.results.recorded(key)) for run in comparison.runs}
        if any(values.values()):
            rows[heading] = values
    return table_of({"setting": rows, "value": map(_together, rows.values())})


def _samples(run: Run) -> str:
    counts = run.results.per_problem.samples
    few, many = min(counts), max(counts)
    return f"{few:,}" if few == many else f"{few:,} to {many:,}"


def _together(values: Mapping[str, str]) -> str:
    by_value: dict[str, list[str]] = {}
    for name, value in values.items():
        by_value.setdefault(value or "not recorded", []).append(name)
    if len(by_value) == 1:
        return next(iter(by_value))
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in by_value.items())


def _plain(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(_mapping(part).get("target", repr(part))) for part in value)
    large = isinstance(value, int) and value >= 10_000
    return "" if value is None else f"{value:,}" if large else str(value)


def _evaluated(results: Results) -> str:
    """Return what was evaluated: the model without its folders, or the file of samples."""
    model = results.recorded("settings.model")
    if isinstance(model, Mapping) and model.get("model"):
        name = str(model["model"])
        shown = PurePath(name).name if PurePath(name).is_absolute() else name
        return f"{shown}, weights {model['weights']}" if model.get("weights") else shown
    return PurePath(str(results.manifest.get("samples_file", "–"))).name
