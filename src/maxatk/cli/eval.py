"""The command `eval`: sample a model, run the programs, compute the metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

from maxatk.cli.flags import RewardFlag, set_threads
from maxatk.cli.output import OutputFormat, emit_plan, print_results, refuse_two_outputs
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.evaluation import EvalRecipe, evaluate, plan
from maxatk.sampling import SamplingSettings
from maxatk.settings import apply_overrides, from_mapping, read_recipe

_PARTS = {"samples": "samples drawn", "scores": "verified"}
_Required = Annotated[str, tyro.conf.arg(help_behavior_hint="(required, here or in the recipe)")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeFlags(EvalRecipe):
    """The keys of the recipe as flags: --samples stands for sampling.samples."""

    model: _Required = ""
    problems: _Required = ""
    out: _Required = ""
    reward: RewardFlag = "continuous"
    sampling: Annotated[SamplingSettings, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=SamplingSettings
    )


@dataclasses.dataclass(frozen=True)
class Command:
    """Sample a model on problems, run the programs and compute max@k and pass@k.

    If interrupted, rerun the same command: it loses at most the samples in flight.

    Example: maxatk eval --model runs/mini/base --problems runs/mini/test.jsonl --out runs/eval/base

    Example: maxatk eval recipe.yaml sampling.samples=64 --out runs/eval/other

    Args:
        settings: What is evaluated, and how.
        recipe: A YAML file with the settings that are not given here, as --show-config prints it.
        overrides: Settings that win over the recipe, such as sampling.samples=64; flags win over
            both. They may be given without a recipe.
        dry_run: Check everything, print how much there is to sample, and write nothing.
        show_config: Print all settings as they would be used, as a recipe, and stop.
    """

    settings: Annotated[RecipeFlags, tyro.conf.arg(name="")] = RecipeFlags()
    recipe: tyro.conf.Positional[Path | None] = None
    overrides: tyro.conf.Positional[tuple[str, ...]] = ()
    dry_run: bool = False
    show_config: bool = False
    format: OutputFormat = "text"
    progress: ProgressMode = "auto"

    def run(self, arguments: Sequence[str]) -> None:
        """Do what was asked: flags win over overrides, those over the recipe."""
        # Parsed again with the values of the recipe, whose name is known now, as the defaults: so
        # a flag wins over it whatever its value is.
        found = from_mapping(RecipeFlags, self._recipe(), where="recipe")
        required = ("model", "problems", "out")  # of a recipe the first keys
        missing = {name: tyro.MISSING for name in required if not getattr(found, name)}
        default = Command(dataclasses.replace(found, **missing))
        asked = tyro.cli(Command, prog="maxatk eval", args=arguments, default=default)
        refuse_two_outputs(asked.format, asked.progress)
        set_threads(asked.settings.model)
        if asked.show_config:
            shown = {**dict.fromkeys(required), **dataclasses.asdict(asked.settings)}
            print(yaml.safe_dump(shown, sort_keys=False), end="")
            return
        if asked.dry_run:
            emit_plan(plan(asked.settings), asked.format)
            return
        with progress_of("eval", asked.progress, parts=_PARTS) as report:
            results = evaluate(asked.settings, progress=report)
        if asked.progress != "json":
            print_results(asked.settings, results, asked.format)

    def _recipe(self) -> dict[str, Any]:
        if self.recipe is None:
            return {}
        if "=" in str(self.recipe) and not self.recipe.is_file():  # overrides without a recipe
            return apply_overrides({}, [str(self.recipe), *self.overrides])
        return read_recipe(self.recipe, self.overrides)
