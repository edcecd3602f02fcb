"""The command `demo`: a recipe that strings the other commands together on the built-in model."""

from __future__ import annotations

import dataclasses
import importlib.resources
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.cli.progress import stage_board
from maxatk.cli.report import write_page
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.folders import read_json, refuse_other_settings, write_json
from maxatk.mini import MiniSettings
from maxatk.objectives import METHODS
from maxatk.settings import from_mapping, read_recipe
from maxatk.studies.experiment import (
    EvalSection,
    TrainSection,
    check_trainer,
    eval_arguments,
    flags,
    train_recipe,
    write_recipe,
)
from maxatk.studies.stages import Stage, default_jobs, run_stages

BASE = "base"
RECORD = "demo.json"


@dataclasses.dataclass(frozen=True)
class DemoRecipe:
    """The sections of a demo: where it goes, which methods, and the settings of every command."""

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
    """Train, evaluate and compare on the built-in model: the paper's effect on two cores.

    Killed and started again, it goes on from the last finished stage.

    Example: maxatk demo --fast out=runs/fast

    Args:
        overrides: Settings that win over the recipe, such as out=runs/other train.trainer.k=4.
        recipe: A recipe of your own instead of the one that comes with the package.
        fast: All stages in about a minute: a check of the machinery, not a result.
        jobs: Stages run at once; one more than cores, but at most three, if not given.
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
    jobs = jobs or min(default_jobs(), 3)
    stages = list(_stages(demo, out, cores=cores))
    with stage_board([stage.name for stage in stages]) as board:
        seconds = run_stages(stages, out, jobs=jobs, board=board)
    results = {name: out / "eval" / name for name in (BASE, *demo.methods)}
    trained = {method: out / "train" / method for method in demo.methods}
    title = "Best-of-N training on the built-in model"
    write_page(results, out / "report.html", trained=trained, title=title)
    print(f"stages: {', '.join(f'{n} {s:.0f} s' for n, s in seconds.items())}")  # noqa: T201


def _stages(demo: DemoRecipe, out: Path, *, cores: int) -> Iterator[Stage]:
    """Yield the stages: the built-in model first, then trainings and evaluations side by side."""
    mini = out / "mini"
    settings = flags(dataclasses.asdict(demo.mini))
    yield Stage("warm-start", ("mini", str(mini), *settings), threads=cores)
    models = {BASE: mini / "base"}
    for method in demo.methods:
        models[method] = out / "train" / method
        recipe = out / "recipes" / f"{method}.yaml"
        write_recipe(recipe, _train_recipe(demo, out, method))
        yield Stage(f"train-{method}", ("train", str(recipe)), needs=("warm-start",))
    for name, model in models.items():
        arguments = eval_arguments(demo.eval, model=model, mini=mini, out=out / "eval" / name)
        needs = "warm-start" if name == BASE else f"train-{name}"
        yield Stage(f"eval-{name}", arguments, needs=(needs,))


def _train_recipe(demo: DemoRecipe, out: Path, method: str) -> dict[str, Any]:
    section = dataclasses.asdict(demo.train)
    section["trainer"]["method"] = method
    return train_recipe(section, mini=out / "mini", out=out / "train" / method)


def _claim_folder(out: Path, demo: DemoRecipe) -> None:
    """Check a new demo and record its settings; refuse a folder that holds another one's."""
    settings = dataclasses.asdict(demo)
    record = out / RECORD
    if record.is_file():
        refuse_other_settings(out, read_json(record), settings)
        return
    check_trainer([_train_recipe(demo, out, method) for method in demo.methods])
    out.mkdir(parents=True, exist_ok=True)
    write_json(record, settings)
