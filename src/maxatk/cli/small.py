"""The small commands: mini, recipes, methods, export and doctor."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from maxatk.cli.flags import one_of, set_threads
from maxatk.cli.output import OutputFormat, emit, shown
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import InvalidValueError, SandboxError, StageError
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.load import load_results
from maxatk.evaluation.results import METRICS
from maxatk.evaluation.store import read_records
from maxatk.exchange import export as forms
from maxatk.exchange.hub import write_hub
from maxatk.mini import MiniSettings, build_mini
from maxatk.objectives import METHODS, Method
from maxatk.objectives.baselines import BASELINES
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Sample, Score
from maxatk.settings import find_recipe, from_mapping, packaged_recipes, read_recipe
from maxatk.verifier import Layer
from maxatk.verifier import doctor as layers_here

if TYPE_CHECKING:
    from maxatk.verl.surface import Check


def mini(
    out: Annotated[Path, tyro.conf.Positional],
    /,
    settings: Annotated[MiniSettings, tyro.conf.arg(name="")] = MiniSettings(),  # noqa: B008
    recipe: Path | None = None,
    progress: ProgressMode = "auto",
) -> None:
    """Make problems (train.jsonl, test.jsonl) and the warm-started model (base) in a folder.

    Example: maxatk mini runs/mini --test-problems 96

    Args:
        out: The folder; what it already holds for the same settings is left alone.
        settings: Sizes and seed.
        recipe: A YAML file with the settings, such as test_problems, instead of flags.
    """
    if recipe is not None:
        if settings != MiniSettings():
            raise InvalidValueError("mini: give either --recipe or settings as flags")
        settings = from_mapping(MiniSettings, read_recipe(recipe), where="recipe")
    set_threads()
    with progress_of("warm start", progress) as report:
        build_mini(out, settings, progress=report)
    print(f"model: {out / 'base'}")


def list_recipes(format: OutputFormat = "text") -> None:
    """List the recipes of the package with their first sentence; every command takes them by name.

    Example: maxatk recipes list
    """
    found = packaged_recipes()
    rows = [{"recipe": n, "about": _about(p), "path": str(p)} for n, p in found.items()]
    emit({"recipes": shown(rows, "recipe", "about")}, format)


def show_recipe(name: Annotated[str, tyro.conf.Positional], /) -> None:
    """Print a recipe, such as to change a copy of it.

    Example: maxatk recipes show mini/train > mine.yaml

    Args:
        name: A name of the list.
    """
    print(find_recipe(Path(name)).read_text(encoding="utf-8"), end="")


def _about(path: Path) -> str:
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.open(encoding="utf-8"))
    text = " ".join(line.strip("# \n") for line in lines)
    return re.split(r"(?<=[.?])\s+(?=[A-Z`\[])", text)[0]


def methods(format: OutputFormat = "text") -> None:
    """List the methods: what each is unbiased for, its formula, and where it comes from.

    Example: maxatk methods --format md
    """
    rows = [
        {
            "method": name,
            "unbiased_for": method.unbiased_for or None,
            "advantage": _formula(method),
            "source": method.source,
        }
        for name, method in METHODS.items()
    ]
    emit({"methods": shown(rows)}, format)


def _formula(method: Method) -> str:
    """Return the formula of a method in words: (credit - baseline) / scale."""
    baseline = BASELINES[method.baseline].formula
    text = str(method.credit) if baseline == "0" else f"{method.credit} - {baseline}"
    if method.correction != "none":
        text = f"{text}, with {method.correction.replace('_', ' ')} ratios"
    return text if method.scale == "none" else f"({text}) / {method.scale}"


def export(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    out: Path,
    to: Literal["human-eval", "hub", "inspect", "jsonl", "parquet", "sft"],
    problems: str | None = None,
    k: int | None = None,
    draws: int | None = None,
) -> None:
    """Write the samples and scores of a run for another tool.

    Example: maxatk export runs/base --to parquet --out base.parquet

    Example: maxatk export runs/base --to sft --k 8 --problems train.jsonl --out sft.jsonl

    Args:
        run: A folder written by eval or score.
        out: The file to write; for hub a folder.
        to: human-eval writes its lines, hub what pages of the hub read (.eval_results, model-index,
            samples with a card), inspect a log (.eval, .json) whose epochs are the samples, jsonl
            and parquet a row a sample, sft conversations weighed by the chance to be the best of k.
        problems: A benchmark's name or a problems.jsonl, for prompts and answers in a log or sft.
        k: The k of best-of-k, for sft.
        draws: So many rows a problem in proportion to the weights, for sft without weights.
    """
    scores = read_records(run / SCORES, Score)
    samples = read_records(run / SAMPLES, Sample) if (run / SAMPLES).is_file() else {}
    known = {} if problems is None else problems_by_id(load_problems(problems), source=problems)
    rows = [
        forms.Exported(s, samples.get(key), known.get(s.problem_id)) for key, s in scores.items()
    ]
    if to != "hub":
        print(f"{to}: {forms.export(rows, out, to=to, name=run.name, k=k, draws=draws)}")
        return
    means = load_results(run).metrics
    metrics = {
        f"{metric.removesuffix('k')}{k}": (mean.mean, mean.low, mean.high)
        for metric in METRICS
        for k, mean in means[metric].items()
    }
    sources = {row.problem.source if row.problem else None for row in rows}
    source = sources.pop() if len(sources) == 1 else None
    for file in write_hub(out, list(map(forms.flat, rows)), metrics, name=run.name, source=source):
        print(f"hub: {file}")


def doctor(format: OutputFormat = "text", engines: bool = False) -> None:
    """Show every layer of isolation, whether it holds on this machine and what it does.

    Where verl is installed, also what the plug-in for it builds on. The command fails for a missing
    layer that is required, and for an engine that was asked for and does not work.

    Example: maxatk doctor --engines

    Args:
        engines: Compare what each engine here draws with a plain forward pass, in about a minute.
    """
    layers = layers_here()
    found: dict[str, Sequence[Layer | Check]] = {"layers": layers, "verl": [], "engines": []}
    if importlib.util.find_spec("verl"):
        from maxatk.verl.surface import registrations, versions  # takes seconds to import

        found["verl"] = [*versions(), *registrations()]
    if engines:
        from maxatk.engines.trial import try_engines

        found["engines"] = list(try_engines())
    rows = {name: list(map(dataclasses.asdict, parts)) for name, parts in found.items()}
    emit({name: shown(of_name, title=name) for name, of_name in rows.items()}, format)
    missing = [layer.name for layer in layers if layer.required and not layer.holds]
    if missing:
        raise SandboxError(f"doctor: programs cannot be verified safely here: {', '.join(missing)}")
    failed = [part.name for part in found["engines"] if not part.holds]
    if failed:
        raise StageError(f"doctor: does not work on this machine: {', '.join(failed)}")


recipes = one_of({"list": list_recipes, "show": show_recipe})
