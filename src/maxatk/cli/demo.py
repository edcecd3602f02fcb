"""The verb `demo`: a recipe that strings the other verbs together on the embedded model."""

from __future__ import annotations

import dataclasses
import importlib.resources
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

from maxatk.cli.recipe import read_recipe
from maxatk.cli.report import write_page
from maxatk.cli.stages import Stage, run_stages
from maxatk.errors import InvalidValueError, MaxAtKError, unknown_name
from maxatk.evaluate import SamplingSettings
from maxatk.folders import read_json, refuse_other_settings, write_json
from maxatk.mini import MiniSettings
from maxatk.objectives import METHODS
from maxatk.settings import from_mapping
from maxatk.verifier.settings import JudgeSettings

BASE = "base"
RECORD = "demo.json"


@dataclasses.dataclass(frozen=True)
class TrainSection:
    """The recipe of `maxatk train` without what the demo fills in: model, problems, out, method."""

    reward: str = "continuous"
    judge: JudgeSettings = dataclasses.field(default_factory=JudgeSettings)
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class EvalSection:
    """The flags of `maxatk eval` without model, problems and out."""

    sampling: SamplingSettings
    judge: JudgeSettings = dataclasses.field(default_factory=JudgeSettings)


@dataclasses.dataclass(frozen=True)
class DemoRecipe:
    """The sections of a demo: where it goes, which methods, and the settings of every verb."""

    out: str
    methods: list[str]
    mini: MiniSettings
    train: TrainSection
    eval: EvalSection

    def __post_init__(self) -> None:
        if not self.methods:
            raise InvalidValueError("methods: must name at least one method")
        for method in self.methods:
            if method not in METHODS:
                raise unknown_name("methods", method, METHODS)
            if self.methods.count(method) > 1:
                raise InvalidValueError(f"methods: {method!r} is listed twice")


def command(
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    recipe: Path | None = None,
    fast: bool = False,
    jobs: int | None = None,
) -> None:
    """Train, evaluate and compare on the embedded model: the paper's effect on two cores.

    Killed and started again, it goes on from the last finished stage.

    Example: maxatk demo --fast out=runs/fast

    Args:
        overrides: Settings that win over the recipe, such as out=runs/other train.trainer.k=4.
        recipe: A recipe of your own instead of the one that comes with the package.
        fast: All stages in about a minute: a check of the machinery, not a result.
        jobs: Stages run at once; one a core, but at most two, if not given.
    """
    if jobs is not None and jobs < 1:
        raise InvalidValueError(f"--jobs: must be at least 1, got {jobs}")
    name = "fast.yaml" if fast else "demo.yaml"
    with importlib.resources.as_file(importlib.resources.files("maxatk")) as package:
        path = recipe or package / "recipes" / "mini" / name
        demo = from_mapping(DemoRecipe, read_recipe(path, overrides), where="recipe")
    cores = len(os.sched_getaffinity(0))
    out = Path(demo.out)
    _claim_folder(out, demo)
    seconds = run_stages(list(_stages(demo, out, cores=cores)), out, jobs=jobs or min(cores, 2))
    results = {name: out / "eval" / name for name in (BASE, *demo.methods)}
    trained = {method: out / "train" / method for method in demo.methods}
    title = "Best-of-N training on the embedded model"
    write_page(results, out / "report.html", trained=trained, title=title)
    print(f"stages: {', '.join(f'{n} {s:.0f} s' for n, s in seconds.items())}")  # noqa: T201


def _stages(demo: DemoRecipe, out: Path, *, cores: int) -> Iterator[Stage]:
    """Yield the stages: the embedded model first, then trainings and evaluations side by side."""
    mini = flags(dataclasses.asdict(demo.mini))
    yield Stage("warm-start", ("mini", str(out / "mini"), *mini), threads=cores)
    models = {BASE: out / "mini" / "base"}
    for method in demo.methods:
        models[method] = out / "train" / method
        recipe = out / "recipes" / f"{method}.yaml"
        _write_train_recipe(recipe, demo, out, method)
        yield Stage(f"train-{method}", ("train", str(recipe)), needs=("warm-start",))
    for name, model in models.items():
        settings = {
            "model": str(model),
            "problems": str(out / "mini" / "test.jsonl"),
            "out": str(out / "eval" / name),
            **dataclasses.asdict(demo.eval.sampling),
            "judge": dataclasses.asdict(demo.eval.judge),
        }
        needs = "warm-start" if name == BASE else f"train-{name}"
        yield Stage(f"eval-{name}", ("eval", *flags(settings)), needs=(needs,))


def _write_train_recipe(path: Path, demo: DemoRecipe, out: Path, method: str) -> None:
    """Write the recipe of one method as a file that `maxatk train` runs by itself too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recipe = _train_recipe(demo, out, method)
    path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")


def _train_recipe(demo: DemoRecipe, out: Path, method: str) -> dict[str, Any]:
    section = dataclasses.asdict(demo.train)
    return {
        "model": str(out / "mini" / "base"),
        "problems": str(out / "mini" / "train.jsonl"),
        "out": str(out / "train" / method),
        **section,
        "trainer": {**section["trainer"], "method": method},
    }


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


def _claim_folder(out: Path, demo: DemoRecipe) -> None:
    """Check a new demo and record its settings; refuse a folder that holds another one's."""
    settings = dataclasses.asdict(demo)
    record = out / RECORD
    if record.is_file():
        refuse_other_settings(out, read_json(record), settings)
        return
    _check_trainer(demo)
    out.mkdir(parents=True, exist_ok=True)
    write_json(record, settings)


def _check_trainer(demo: DemoRecipe) -> None:
    """Raise InvalidValueError for settings the trainer refuses, minutes before it would.

    Another process asks the trainer: its imports would cost this one half a GiB for good.
    """
    recipe = _train_recipe(demo, Path(demo.out), demo.methods[0])
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(_ask_trainer, recipe).result()
        except MaxAtKError as error:
            raise InvalidValueError(f"train: {error}") from error


def _ask_trainer(recipe: dict[str, Any]) -> None:
    from maxatk.train import TrainRecipe, check_settings

    check_settings(from_mapping(TrainRecipe, recipe, where="recipe"))
