"""What was compared, the settings, and in what runs differ or lack before any number is read."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from maxatk.evaluation.results import MOST_CUT_OFF, Results
from maxatk.objectives import METHODS
from maxatk.objectives.methods import Method
from maxatk.report.runs import ALPHA, BASE, Comparison, Run
from maxatk.report.tables import Table, p_value, table_of, transposed
from maxatk.statistics.intervals import FEW_PROBLEMS, FloatArray
from maxatk.statistics.tests import adjusted_p_values, wilcoxon

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

_MEANT_TO_DIFFER = (
    *("model.model", "model.weights", "model.stored_dtype"),
    *("samples.sha256", "rewards.sha256"),
)
_NUMERICS = ("gpu", "driver", "cuda", "torch", "transformers", "vllm", "peft")
"""What of an environment the numbers of two models may differ by."""


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
    trainers = {}
    for run in comparison.runs:
        recipe = run.results.manifest.get("training") or recipes.get(run.name)
        trainers[run.name] = _mapping(_mapping(recipe).get("trainer"))
    trained = any(trainers.values())
    rows = [_about(run, trainers[run.name], trained=trained) for run in comparison.runs]
    columns = {heading: [row[heading] for row in rows] for heading in rows[0]}
    return transposed(table_of({"model": comparison.names, **columns}))


def _about(run: Run, trainer: Mapping[str, Any], *, trained: bool) -> dict[str, str]:
    method = METHODS.get(str(trainer.get("method")))
    k = trainer.get("k") if method is not None and method.kind.uses_k else None
    what = "the model before training" if run.name == BASE else "not known: no training record"
    steps = trainer.get("max_steps")
    unused = "num_train_epochs" if isinstance(steps, int) and steps > 0 else "max_steps"
    known = trainer.keys() - {unused}
    said = [text.format(trainer[key]) for key, text in _TRAINING if key in known]
    return {
        "what it is": (what if method is None else described(method, k)) if trained else "",
        "method": str(trainer.get("method", "–")),
        "k of training": "–" if k is None else str(k),
        "training": ", ".join(said) or "–",
        "evaluated": _evaluated(run.results),
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a record as it should be: others may have written it."""
    return value if isinstance(value, Mapping) else {}


def _evaluated(results: Results) -> str:
    """Return what was evaluated: the model without its folders, or the file of samples."""
    model = results.recorded("settings.model")
    if isinstance(model, Mapping) and model.get("model"):
        name = str(model["model"])
        shown = PurePath(name).name if PurePath(name).is_absolute() else name
        return f"{shown}, weights {model['weights']}" if model.get("weights") else shown
    return PurePath(str(results.manifest.get("samples_file", "–"))).name


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
        values = {run.name: _plain(run.results.recorded(key)) for run in comparison.runs}
        if any(values.values()) and not (given and key.startswith("environment.")):
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


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to know; `id` is that of its element on the page, `lines` are about single runs."""

    id: str
    text: str
    lines: Sequence[str] = ()


def notices(comparison: Comparison) -> list[Notice]:
    """Return what a reader should know of these runs before any number."""
    counts = {run.name: run.results.counts for run in comparison.runs}
    lacking = [f"{name}: {count.lacking}." for name, count in counts.items() if count.lacking]
    cut_off = [
        f"{run.name} has {share:.1%} of its samples cut off by their length, so that its metrics "
        "say much about sampling.max_new_tokens."
        for run in comparison.runs
        if (share := run.results.cut_off) is not None and share > MOST_CUT_OFF
    ]
    differing, missing = setting_differences(comparison), unscored_warnings(comparison)
    found = [
        Notice("setting-differences", "The runs differ in more than the model:", differing),
        Notice("unscored-differs", "Samples are not missing at random:", missing),
        Notice("cut-off", "Samples were cut off:", cut_off),
        Notice("unscored", "Samples without a reward:", lacking),
    ]
    found = [notice for notice in found if notice.lines]
    problems = comparison.baseline.problems
    if problems < FEW_PROBLEMS:
        text = (
            f"With {problems} problem{'' if problems == 1 else 's'} only, intervals are "
            "Student's t. Where most problems are at the ceiling of 1 even these are too narrow: "
            "the tables say how many are below it."
        )
        found.append(Notice("few-problems", text))
    return found


def setting_differences(comparison: Comparison) -> list[str]:
    """Return one line for every setting, GPU or version in which a run differs from the baseline.

    The model itself, or the file of its samples, is left out: runs are meant to differ in it.
    """
    base, first = comparison.baseline.name, _recorded(comparison.baseline)
    return [
        f"{key}: {first.get(key)!r} for {base}, {mine.get(key)!r} for {run.name}"
        for run in comparison.others
        for mine in [_recorded(run)]
        for key in sorted(first.keys() | mine.keys())
        if key not in _MEANT_TO_DIFFER and first.get(key) != mine.get(key)
    ]


def _recorded(run: Run) -> dict[str, Any]:
    versions = {name: run.results.recorded(f"environment.{name}") for name in _NUMERICS}
    return {**_flat(run.results.recorded("settings") or {}), **versions}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{name}.{key}" if name else key))
    return flat


def unscored_warnings(comparison: Comparison) -> list[str]:
    """Return a sentence for every two runs whose shares of unscored samples differ.

    Their difference may then be one of what was scored: an unscored sample leaves its problem, and
    a problem with fewer than k others the mean at k. The shares are compared problem by problem
    (Wilcoxon, two-sided), adjusted for the number of pairs.
    """
    shares = {run.name: _unscored(run) for run in comparison.runs}
    pairs = [
        pair
        for pair in itertools.combinations(comparison.runs, 2)
        if any(shares[run.name].any() for run in pair)
    ]
    found = adjusted_p_values([wilcoxon(*(shares[run.name] for run in pair)) for pair in pairs])
    return [
        f"{_said(one)} and {_said(other)}: not by chance (p {_p_said(p)}), so that a difference "
        "of the two may be one of what was scored."
        for (one, other), p in zip(pairs, found, strict=True)
        if p <= ALPHA
    ]


def _unscored(run: Run) -> FloatArray:
    found = run.results.per_problem
    samples, scored = (np.array(c, dtype=np.float64) for c in (found.samples, found.scored))
    return (samples - scored) / samples


def _said(run: Run) -> str:
    counts = run.results.counts
    return f"{run.name} has {counts.unscored / counts.samples:.1%} of its samples unscored"


def _p_said(p: float) -> str:
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"
