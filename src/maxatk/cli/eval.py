"""The command `eval`: sample a model, run the programs, compute the metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

from maxatk.cli.flags import RewardFlag, set_threads
from maxatk.cli.output import OutputFormat, emit_plan, refuse_two_outputs
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.cli.results_output import print_results
from maxatk.evaluation import EvalRecipe, evaluate, plan
from maxatk.sampling import SamplingSettings
from maxatk.settings import apply_overrides, from_mapping, read_recipe

_PARTS = {"samples": "samples drawn", "scores": "verified"}
_REQUIRED_KEYS = ("model", "problems", "out")
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

    Example: maxatk eval --model runs/base --problems test.jsonl --out runs/eval/base --samples 64

    Example: maxatk eval recipe.yaml sampling.samples=64 --out runs/eval/other

    Args:
        settings: What is evaluated, and how.
        recipe: A YAML file with the settings that are not given here, as --show-config prints it.
        overrides: Settings that win over the recipe, such as sampling.samples=64; flags win over
            both. They may be given without a recipe.
        dry_run: Check everything, call a reward function of your own with three completions, print
            how much there is to sample, and write nothing.
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
        recipe = from_mapping(RecipeFlags, self._recipe(), where="recipe")
        missing = {name: tyro.MISSING for name in _REQUIRED_KEYS if not getattr(recipe, name)}
        default = Command(dataclasses.replace(recipe, **missing))
        command = tyro.cli(Command, prog="maxatk eval", args=arguments, default=default)
        command._carry_out()

    def _carry_out(self) -> None:
        refuse_two_outputs(self.format, self.progress)
        set_threads(self.settings.model)
        if self.show_config:
            # The required keys first, whatever the order of the classes that settings are made of.
            config = {**dict.fromkeys(_REQUIRED_KEYS), **dataclasses.asdict(self.settings)}
            print(yaml.safe_dump(config, sort_keys=False), end="")
            return
        if self.dry_run:
            emit_plan(plan(self.settings), self.format)
            return
        with progress_of("eval", self.progress, parts=_PARTS) as report:
            results = evaluate(self.settings, progress=report)
        if self.progress != "json":
            print_results(self.settings, results, self.format)

    def _recipe(self) -> dict[str, Any]:
        """Return the settings of the recipe, with the overrides; none if neither is given."""
        if self.recipe is None:
            return {}
        # Overrides without a recipe: the first of them stands where the recipe would.
        if "=" in str(self.recipe) and not self.recipe.is_file():
            return apply_overrides({}, [str(self.recipe), *self.overrides])
        return read_recipe(self.recipe, self.overrides)
