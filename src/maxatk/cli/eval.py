"""The command `eval`: sample a model, run the programs, compute the metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

from maxatk.cli.progress import ProgressMode, parts_progress
from maxatk.cli.results import print_results
from maxatk.cli.rewards import RewardFlag
from maxatk.cli.tables import OutputFormat, print_json, refuse_two_outputs
from maxatk.engines.cluster import ClusterSettings
from maxatk.engines.cluster.opening import open_sampler, open_verifier, work_by_part
from maxatk.evaluation import SamplingSettings, evaluate
from maxatk.evaluation.folder import recorded_batch_size
from maxatk.evaluation.groups import check_by
from maxatk.evaluation.planning import EvaluationPlan, plan
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.problems import load_problems
from maxatk.settings import apply_overrides, from_mapping, read_recipe

_PARTS = {"samples": "samples drawn", "scores": "verified"}
_Required = Annotated[str, tyro.conf.arg(help_behavior_hint="(required, here or in the recipe)")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeFlags(EvalRecipe):
    """The keys of the recipe as flags: --samples stands for sampling.samples.

    Args:
        cluster: A Ray cluster whose nodes sample and run the programs; this machine without an
            address.
    """

    model: _Required
    problems: _Required
    out: _Required
    reward: RewardFlag = "continuous"
    sampling: Annotated[SamplingSettings, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=SamplingSettings
    )
    cluster: ClusterSettings = dataclasses.field(default_factory=ClusterSettings)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Sample a model on problems, run the programs and compute max@k and pass@k.

    If interrupted, rerun the same command: it loses at most the samples in flight.

    Example: maxatk eval --model runs/mini/base --problems runs/mini/test.jsonl --out runs/eval/base

    Example: maxatk eval recipe.yaml sampling.samples=64 --out runs/eval/other

    Args:
        settings: What is evaluated, and how.
        recipe: A YAML file with the settings that are not given here, as --show-config prints it.
        overrides: Settings that win over the recipe, such as sampling.samples=64; flags win over
            both. They may be given without a recipe.
        k: Which k to print, from 1 to the samples of a problem; 1, 8, 32 and 128, as far as there
            are samples, if none is given.
        by: A field of the problems' meta: also print the results by its values.
        dry_run: Print the plan, with a time estimated from a short probe, and write nothing.
        show_config: Print all settings as they would be used, as a recipe, and stop.
        format: How the tables are printed; json is one object with one number a field.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """

    settings: Annotated[RecipeFlags, tyro.conf.arg(name="")]
    recipe: tyro.conf.Positional[Path | None] = None
    overrides: tyro.conf.Positional[tuple[str, ...]] = ()
    k: tuple[int, ...] = ()
    by: str | None = None
    dry_run: bool = False
    show_config: bool = False
    format: OutputFormat = "text"
    progress: ProgressMode = "auto"


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments of `maxatk eval` say: flags win over overrides, those over the file."""
    asked = _parse(arguments)
    refuse_two_outputs(asked.format, asked.progress)
    if asked.show_config:
        print(yaml.safe_dump(asked.settings.to_mapping(), sort_keys=False), end="")  # noqa: T201
    elif asked.dry_run and asked.format == "json":
        print_json({"plan": [_planned(asked.settings).to_json()]})
    elif asked.dry_run:
        print(_plan_text(_planned(asked.settings)))  # noqa: T201
    else:
        _evaluate(asked.settings, asked)


def _parse(arguments: Sequence[str]) -> Arguments:
    # Twice: the first time for the name of the recipe, then with its values as the defaults, so
    # that a flag wins over the recipe whatever its value is.
    first = _parse_over(RecipeFlags(model="", problems="", out=""), arguments)
    settings = _read(first)
    return _parse_over(_defaults(settings), arguments)


def _read(asked: Arguments) -> dict[str, Any]:
    if asked.recipe is None:
        return {}
    if "=" in str(asked.recipe) and not asked.recipe.is_file():  # overrides without a recipe
        return apply_overrides({}, [str(asked.recipe), *asked.overrides])
    return read_recipe(asked.recipe, asked.overrides)


def _defaults(settings: Mapping[str, Any]) -> RecipeFlags:
    """Return the defaults of the flags; a required key that is not there has to be given as one."""
    required = ("model", "problems", "out")
    missing = {name: tyro.MISSING for name in required if name not in settings}
    found = from_mapping(RecipeFlags, {**settings, **dict.fromkeys(missing, "")}, where="recipe")
    return dataclasses.replace(found, **missing)


def _parse_over(settings: RecipeFlags, arguments: Sequence[str]) -> Arguments:
    return tyro.cli(
        Arguments, prog="maxatk eval", args=arguments, default=Arguments(settings=settings)
    )


def _planned(recipe: EvalRecipe) -> EvaluationPlan:
    problems = load_problems(recipe.problems, limit=recipe.limit)
    with recipe.verifier.open() as verifier:
        return plan(
            recipe.model,
            problems,
            recipe.out,
            verifier=verifier,
            settings=recipe.sampling,
            model_settings=recipe.model_settings,
            reward=recipe.reward,
        )


def _evaluate(recipe: RecipeFlags, asked: Arguments) -> None:
    problems = load_problems(recipe.problems, limit=recipe.limit)
    check_by((problem.meta for problem in problems), asked.by)  # not after hours of sampling
    batch_size = recipe.batch_size or recorded_batch_size(Path(recipe.out))
    model_settings = dataclasses.replace(recipe.model_settings, batch_size=batch_size)
    with (
        open_verifier(recipe.verifier, recipe.cluster) as verifier,
        open_sampler(recipe.model, model_settings, recipe.cluster) as sampler,
        parts_progress("eval", asked.progress, _PARTS, work_by_part(sampler, verifier)) as report,
    ):
        results = evaluate(
            recipe.model,
            problems,
            recipe.out,
            settings=recipe.sampling,
            model_settings=model_settings,
            sampler=sampler,
            verifier=verifier,
            reward=recipe.reward,
            more_ks=asked.k,
            threshold=recipe.threshold,
            store_failures=recipe.store_failures,
            label=recipe.label,
            problems_name=str(recipe.problems),
            progress=report,
        )
    if asked.progress != "json":
        name = recipe.label or Path(recipe.out).name
        print_results(name, results, ks=asked.k, by=asked.by, output_format=asked.format)


def _plan_text(planned: EvaluationPlan) -> str:
    expected = planned.expected_tokens
    return "\n".join(
        [
            f"problems   {planned.problems:,}",
            f"samples    {planned.samples:,}, {planned.found:,} of them found",
            f"tokens     at most {planned.most_tokens:,}"
            + ("" if expected is None else f", about {expected:,}"),
            f"sampling   about {planned.sampling_s:,.0f} s",
            f"verification    about {planned.verifying_s:,.0f} s, beside the sampling",
            f"in all     about {planned.seconds:,.0f} s, from a probe of {planned.probed} samples",
        ]
    )
