"""What demo and study share: recipe sections, and the command lines of `train` and `eval`."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.evaluation import SamplingSettings
from maxatk.settings import from_mapping
from maxatk.verifier.settings import VerifierSettings


@dataclasses.dataclass(frozen=True)
class TrainSection:
    """The recipe of `maxatk train` without what an experiment fills in: model, problems, out."""

    reward: str = "continuous"
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class EvalSection:
    """The flags of `maxatk eval` without model, problems and out."""

    sampling: SamplingSettings
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)


def train_recipe(section: Mapping[str, Any], *, mini: Path, out: Path) -> dict[str, Any]:
    """Return the recipe that trains the model of a `maxatk mini` folder as a section says."""
    return {
        "model": str(mini / "base"),
        "problems": str(mini / "train.jsonl"),
        "out": str(out),
        **section,
    }


def write_recipe(path: Path, recipe: Mapping[str, Any]) -> None:
    """Write a recipe as a file that `maxatk train` runs by itself too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(dict(recipe), sort_keys=False), encoding="utf-8")


def eval_arguments(section: EvalSection, *, model: Path, mini: Path, out: Path) -> tuple[str, ...]:
    """Return the arguments of `maxatk` that evaluate a model on the held-out problems."""
    settings = {
        "model": str(model),
        "problems": str(mini / "test.jsonl"),
        "out": str(out),
        **dataclasses.asdict(section.sampling),
        "verifier": dataclasses.asdict(section.verifier),
    }
    return ("eval", *flags(settings))


def flags(settings: Mapping[str, Any], prefix: str = "--") -> Iterator[str]:
    """Yield the command-line flags of nested settings: {a: {b_c: 1}} gives --a.b-c 1.

    None stands for a flag that is not given.
    """
    for name, value in settings.items():
        flag = prefix + name.replace("_", "-")
        if isinstance(value, Mapping):
            yield from flags(value, flag + ".")
        elif value is not None:
            yield from (flag, str(value))


def check_trainer(recipes: Sequence[Mapping[str, Any]]) -> None:
    """Raise InvalidValueError for settings the trainer refuses, minutes before it would.

    Another process asks the trainer: its imports would cost this one half a GiB for good.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(_ask_trainer, list(recipes)).result()
        except MaxAtKError as error:
            raise InvalidValueError(f"train: {error}") from error


def _ask_trainer(recipes: list[Mapping[str, Any]]) -> None:
    from maxatk.train import TrainRecipe, check_settings

    for recipe in recipes:
        check_settings(from_mapping(TrainRecipe, recipe, where="recipe"))
