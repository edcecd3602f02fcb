"""The command `demo`: a study of one seed on the built-in model, from a recipe of the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.check import at_least
from maxatk.cli.output import Output, OutputFormat, emit
from maxatk.cli.results_output import results_output
from maxatk.cli.study import carry_out, kind_of
from maxatk.errors import InvalidValueError
from maxatk.evaluation.load import load_results
from maxatk.settings import packaged_recipes
from maxatk.studies.check import check_study
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import seeded_models
from maxatk.studies.stages import default_jobs

_MOST_JOBS = 3  # each stage takes half a GiB


def command(
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    recipe: Path | None = None,
    fast: bool = False,
    jobs: int | None = None,
    format: OutputFormat = "text",
) -> None:
    """Train, evaluate and compare on the built-in model: the paper's effect on two cores.

    A study of one seed. If interrupted, rerun the same command: it resumes.

    Example: maxatk demo --fast out=runs/fast

    Args:
        overrides: Settings that win over the recipe, such as out=runs/other train.trainer.k=4.
        recipe: A recipe of your own instead of the one that comes with the package.
        fast: All stages in about a minute: a check of the machinery, not a result.
        jobs: Stages run at once; one more than cores, but at most three, if not given.
    """
    at_least("--jobs", jobs, 1)
    packaged = f"mini/{'fast' if fast else 'demo'}"
    study = load_study(recipe or packaged_recipes()[packaged], overrides)
    if len(study.seeds) > 1:
        raise InvalidValueError(
            f"seeds: a demo has one, got {study.seeds!r}; maxatk study takes several"
        )
    models = seeded_models(study)
    check_study(study, models)
    if jobs is None:
        jobs = min(default_jobs(), _MOST_JOBS)
    findings, seconds = carry_out(study, models, jobs=jobs)
    from maxatk.studies.demo_conclusion import demo_conclusion
    from maxatk.studies.write import PAGE

    page = Path(study.out) / PAGE
    results = {model.variant.name: load_results(model.evaluation) for model in models}
    tables = results_output(results)
    tables["stages"] = Output(
        [{"stage": name, "seconds": taken} for name, taken in seconds.items()]
    )
    tables["files"] = Output([{"report": str(page)}])
    if fast:
        sentences = ["A check of all stages: these numbers mean nothing."]
    else:
        sentences = demo_conclusion(study, findings.comparison)
    lines = [*sentences, f"report: {page}", f"stages: {_spent(seconds)}"]
    emit(tables, format, text="\n".join(lines))


def _spent(seconds: Mapping[str, float]) -> str:
    """Say how long the stages of each kind took, one after the other."""
    by_kind: dict[str, list[float]] = {}
    for name, taken in seconds.items():
        by_kind.setdefault(kind_of(name), []).append(taken)
    parts = []
    for kind, stage_seconds in by_kind.items():
        several = f" in {len(stage_seconds)}" if len(stage_seconds) > 1 else ""
        parts.append(f"{kind} {sum(stage_seconds):,.0f} s{several}")
    return ", ".join(parts)
