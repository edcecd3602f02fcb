"""The command `study`: models x seeds from one recipe, and their tables, figures and page."""

from __future__ import annotations

import contextlib
import fcntl
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.progress import stage_board
from maxatk.cli.tables import print_table
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.settings import apply_overrides, from_mapping, read_extended
from maxatk.studies.experiment import check_trainer, write_recipe
from maxatk.studies.plan import (
    StudyRecipe,
    estimated_seconds,
    places,
    stages,
    train_recipes,
)
from maxatk.studies.run import write_study
from maxatk.studies.stages import default_jobs, run_stages
from maxatk.studies.tables import study_tables


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    jobs: int | None = None,
    dry_run: bool = False,
) -> None:
    """Train, evaluate and compare many models over several seeds of the built-in model.

    Killed and started again, it goes on from the last finished stage. Studies with the same folder
    `work` share what is the same in them.

    Example: maxatk study recipes/mini/table2.yaml --dry-run

    Args:
        recipe: A YAML file with title, out, work, seeds, mini, train, eval and grids; with
            `extends: FILE` the keys that it does not have come from another recipe beside it.
        overrides: Settings that win over the recipe, such as out=runs/other seeds=[7].
        jobs: Stages run at once; one more than cores if not given.
        dry_run: Check everything, print the stages that are left and their expected time, and stop.
    """
    if jobs is not None and jobs < 1:
        raise InvalidValueError(f"--jobs: must be at least 1, got {jobs}")
    study = load_study(recipe, overrides)
    jobs = jobs or default_jobs()
    print(_plan_text(study, jobs))  # noqa: T201
    check_trainer(list(train_recipes(study).values()))
    if dry_run:
        return
    work = Path(study.work)
    with _alone_in(work):
        for path, settings in train_recipes(study).items():
            write_recipe(path, settings)
        listed = stages(study)
        with stage_board([stage.name for stage in listed]) as board:
            run_stages(listed, work, jobs=jobs, board=board)
        found = write_study(study)
    print_table(study_tables(found)["scores"], title=study.title)
    print(f"results: {study.out}")  # noqa: T201


def load_study(path: Path, overrides: Sequence[str] = ()) -> StudyRecipe:
    """Return the study of a recipe file, laid over the recipe it extends.

    Raises InvalidValueError for a recipe that extends itself, and as `read_recipe` and
    `from_mapping`.
    """
    settings = apply_overrides(read_extended(path), overrides)
    return from_mapping(StudyRecipe, settings, where="recipe")


def _plan_text(study: StudyRecipe, jobs: int) -> str:
    left = estimated_seconds(study)
    listed = stages(study)
    models = len(places(study)) // len(study.seeds)
    lines = [
        f"{study.title}",
        f"models     {models} x {len(study.seeds)} seeds",
        f"stages     {len(listed)}, {len(listed) - len(left)} of them finished",
    ]
    kinds = Counter(name.partition("-")[0] for name in left)
    for kind, count in kinds.items():
        seconds = sum(s for name, s in left.items() if name.partition("-")[0] == kind)
        lines.append(f"{kind:<10} {count} left, about {seconds / count:,.0f} s each")
    wall = sum(left.values()) / jobs / 60
    lines.append(f"time       about {wall:,.0f} min with {jobs} at once")
    return "\n".join(lines)


@contextlib.contextmanager
def _alone_in(work: Path) -> Iterator[None]:
    """Hold the folder for this process: two studies at once would run the same stage twice."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MaxAtKError(f"{work}: another study is at work in this folder") from error
        yield
