"""The command `study`: models x seeds from one recipe, and their tables, figures and page."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from maxatk.cli.progress import stage_board
from maxatk.cli.tables import OutputFormat, print_json, print_table
from maxatk.engines.cluster import ClusterSettings
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.studies.preflight import TrainingSize, check_study
from maxatk.studies.schedule import estimated_seconds, places, planned, write_recipes
from maxatk.studies.stages import default_jobs, run_stages
from maxatk.studies.study_recipe import StudyRecipe, load_study
from maxatk.studies.study_rows import study_rows

if TYPE_CHECKING:
    from maxatk.studies.findings import Study


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    jobs: int | None = None,
    dry_run: bool = False,
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
    format: OutputFormat = "text",
) -> None:
    """Train, evaluate and compare many models over several seeds.

    If interrupted, rerun the same command: it resumes from the last finished stage. Studies with
    the same folder `work` share what is the same in them.

    Example: maxatk study recipes/mini/table2.yaml --dry-run

    Args:
        recipe: A YAML file with title, out, seeds, model or mini, train, eval and grids; with
            `extends: FILE` the keys that it does not have come from another recipe beside it.
        overrides: Settings that win over the recipe, such as out=runs/other seeds=[7].
        jobs: Stages run at once. If not given, one more than cores with the built-in model, and
            one with another, which may fill the GPU.
        dry_run: Check everything, print the stages that are left and their expected time, and stop.
        cluster: A Ray cluster whose nodes draw the samples of evaluations and run all programs;
            this machine without an address.
        format: How the plan and the table are printed; json is one object with one number a field.
    """
    check_jobs(jobs)
    cluster.check_listening()
    study = load_study(recipe, overrides)
    jobs = jobs or (1 if study.mini is None else default_jobs())
    sizes = check_study(study)
    if dry_run and format == "json":
        print_json({"plan": _plan_rows(study, sizes)})
        return
    # The plan goes before hours of work, so that in JSON it cannot share the output.
    plan_to = sys.stderr if format == "json" else sys.stdout
    print(_plan_text(study, sizes, jobs), file=plan_to, flush=True)
    if dry_run:
        return
    found, _ = carry_out(study, jobs=jobs, cluster=cluster)
    if format == "json":
        print_json(study_rows(found))
        return
    from maxatk.studies.study_tables import study_tables

    print_table(study_tables(found)["scores"], title=study.title)
    print(f"results: {study.out}")  # noqa: T201


def check_jobs(jobs: int | None) -> None:
    """Raise InvalidValueError for a number of stages below 1."""
    if jobs is not None and jobs < 1:
        raise InvalidValueError(f"--jobs: must be at least 1, got {jobs}")


def carry_out(
    study: StudyRecipe,
    *,
    jobs: int,
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
) -> tuple[Study, dict[str, float]]:
    """Run every stage that has not finished, write the study, and return it with their seconds."""
    with _alone_in(study.work_folder):
        cores = len(os.sched_getaffinity(0))
        stages = planned(study, cores=cores, jobs=jobs, flags=_cluster_flags(cluster))
        write_recipes(study, stages)
        with stage_board([stage.name for stage in stages]) as board:
            seconds = run_stages(list(stages), study.work_folder, jobs=jobs, board=board)
        from maxatk.studies.written import write_study  # imports matplotlib

        return write_study(study), seconds


def _cluster_flags(cluster: ClusterSettings) -> list[str]:
    if cluster.address is None:
        return []
    named = {"address": cluster.address, "shards": cluster.shards}
    named["gpus-per-shard"] = cluster.gpus_per_shard
    return [text for name, value in named.items() for text in (f"--cluster.{name}", str(value))]


def _plan_rows(
    study: StudyRecipe, sizes: Mapping[str, TrainingSize | None]
) -> list[dict[str, str | float | None]]:
    """Return one row a stage that is left, with its expected seconds where they are known."""
    return [
        {"stage": name, "kind": name.partition("-")[0], "seconds": seconds}
        for name, seconds in estimated_seconds(study, sizes).items()
    ]


def _plan_text(study: StudyRecipe, sizes: Mapping[str, TrainingSize | None], jobs: int) -> str:
    left = estimated_seconds(study, sizes)
    listed = planned(study, cores=1, jobs=jobs)
    models = len(places(study)) // len(study.seeds)
    lines = [
        f"{study.title}",
        f"models     {models} x {len(study.seeds)} seeds",
        f"stages     {len(listed)}, {len(listed) - len(left)} of them finished",
    ]
    known = {name: seconds for name, seconds in left.items() if seconds is not None}
    kinds = Counter(name.partition("-")[0] for name in left)
    for kind, count in kinds.items():
        seconds = [s for name, s in known.items() if name.partition("-")[0] == kind]
        each = f", about {sum(seconds) / count:,.0f} s each" if len(seconds) == count else ""
        lines.append(f"{kind:<10} {count} left{each}")
    if len(known) < len(left):
        lines.append("time       not known: the recipe gives no costs")
    else:
        wall = sum(known.values()) / jobs / 60
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
