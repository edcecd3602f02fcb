"""The command `study`: models x seeds from one recipe, and their tables, figures and page."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.check import at_least
from maxatk.cli.output import Output, OutputFormat, emit, facts_text, say_aside
from maxatk.cli.progress import progress_of
from maxatk.cores import usable_cores
from maxatk.errors import counted, printable
from maxatk.studies.check import check_study
from maxatk.studies.findings import Study
from maxatk.studies.findings_tables import study_rows, study_tables
from maxatk.studies.recipe import StudyRecipe, load_study
from maxatk.studies.schedule import (
    SeededModel,
    out_folders,
    planned,
    seeded_models,
    write_recipes,
    write_stage_names,
)
from maxatk.studies.stages import default_jobs, finished_seconds, run_stages


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    jobs: int | None = None,
    dry_run: bool = False,
    format: OutputFormat = "text",
) -> None:
    """Train, evaluate and compare many models over several seeds.

    If interrupted, rerun the same command: it resumes from the last finished stage. Where a stage
    fails, all that does not need it goes on, and the study ends with the reason. Studies with the
    same folder `work` share what is the same in them.

    Example: maxatk study recipes/mini/table2.yaml --dry-run

    Args:
        recipe: A YAML file with title, out, seeds, model or mini, train, eval and grids; with
            `extends: FILE` the keys that it does not have come from another recipe beside it.
        overrides: Settings that win over the recipe, such as out=runs/other seeds=[7].
        jobs: Stages run at once; one more than cores with the built-in model, else one by default.
        dry_run: Check everything, print the stages that are left, and stop; also of a study that
            runs.
    """
    at_least("--jobs", jobs, 1)
    study = load_study(recipe, overrides)
    if jobs is None:
        jobs = 1 if study.mini is None else default_jobs()
    models = seeded_models(study)
    check_study(study, models, for_reading=dry_run)
    stages = planned(study, models, cores=1, jobs=jobs)
    seconds = {stage.name: finished_seconds(study.work_folder, stage.name) for stage in stages}
    plan = _plan_text(study, seconds)
    if dry_run:
        names = [name for name, taken in seconds.items() if taken is None]
        left = [{"stage": name, "kind": kind_of(name)} for name in names]
        emit({"plan": Output(left)}, format, text=plan)
        return
    # It comes before hours of work, and may share the output with nothing but text.
    if format == "text":
        print(printable(plan), flush=True)
    else:
        say_aside(plan)
    findings, _ = carry_out(study, models, jobs=jobs)
    rows = study_rows(findings)
    tables = {name: Output(of_table) for name, of_table in rows.items()}
    tables["scores"] = Output(rows["scores"], study_tables(findings)["scores"], study.title)
    if findings.selection is not None:
        say_aside(findings.selection)
    lines = [f"results: {study.out}"]
    if study.front is not None and findings.front is None:
        say_aside(
            "note: no front, for which two seeds or front.choose have to choose among the models, "
            "and a problem has to have as many samples as one of front.ks"
        )
    if findings.front is not None:
        from maxatk.studies.write import front_sentences  # imports matplotlib

        lines = [*front_sentences(findings.front), *lines]
    emit(tables, format, text="\n".join(lines))


def carry_out(
    study: StudyRecipe, models: Sequence[SeededModel], *, jobs: int
) -> tuple[Study, dict[str, float]]:
    """Run every stage that has not finished, write the study, and return it with their seconds."""
    with contextlib.ExitStack() as held:
        for folder in out_folders(study):
            held.enter_context(folder.alone())
        stages = planned(study, models, cores=usable_cores(), jobs=jobs)
        write_recipes(study, stages)
        write_stage_names(study, models)
        with progress_of("stages", parts={"": "finished"}) as report:
            report(0, len(stages))
            seconds = run_stages(list(stages), study.work_folder, report, jobs=jobs)
        from maxatk.studies.write import write_study  # imports matplotlib

        return write_study(study, models), seconds


def _plan_text(study: StudyRecipe, seconds: Mapping[str, float | None]) -> str:
    """Say how much there is to do; `seconds` are those of the finished stages, else None."""
    left = [name for name, taken in seconds.items() if taken is None]
    facts = {
        "models": f"{len(study.variants)} x {counted(len(study.seeds), 'seed')}",
        "stages": f"{len(seconds)}, {len(seconds) - len(left)} of them finished",
    }
    for kind, count in Counter(map(kind_of, left)).items():
        facts[kind] = f"{count} left"
        finished = [
            taken for name, taken in seconds.items() if kind_of(name) == kind and taken is not None
        ]
        if finished:
            mean = sum(finished) / len(finished)
            facts[kind] += f", finished ones took {mean:,.0f} s each"
    return f"{study.title}\n{facts_text(facts)}"


def kind_of(stage: str) -> str:
    """Return the command of a stage, with which its name begins."""
    return stage.partition("-")[0]
