"""The recipe of a best-of-N distillation, and what is checked of it before any work."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

from trl import SFTConfig

from maxatk.check import require, whole
from maxatk.errors import MissingFileError
from maxatk.evaluation.folder import MANIFEST, SCORES
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.folders import differing_settings, read_json
from maxatk.models import load_tokenizer, refuse_missing_model
from maxatk.problems import load_problems
from maxatk.python_numbers import use_python_numbers
from maxatk.settings import from_mapping
from maxatk.train.hidden_token import HiddenToken
from maxatk.train.launch import check_processes, process_count
from maxatk.train.loading_checks import config_to_train
from maxatk.train.recipe import lora_config, merged, trainer_settings
from maxatk.train.setting_checks import check_trackers, require_settings
from maxatk.train.start_checks import refuse_missing_login
from maxatk.train.unread_settings import check_unread

# What the weighted loss is made for: a sample a row, and its likelihood.
_LOSS_SETTINGS = {
    "packing": False,
    "padding_free": False,
    "loss_type": "nll",
    "label_smoothing_factor": 0.0,
}
# The prompts are those of `eval.prompt`, and their tokens are not learned.
_COMPLETIONS_AS_DRAWN = {
    "chat_template_path": (None,),
    "assistant_only_loss": (False,),
    "completion_only_loss": (None, True),
}


@dataclasses.dataclass(frozen=True)
class DistillRecipe:
    """What `maxatk distill` needs: the keys of its recipe.

    `model`, `problems`, `out` and `peft` are as in `TrainRecipe`, and `trainer` has fields of TRL's
    SFTConfig. `run` is a folder of samples that eval wrote; without one each of the `rounds` draws
    them from the model of the one before, as `eval` says, a recipe of `maxatk eval`. A round draws
    for all problems, or for `problems_of_a_round`: the next ones in each round, and after the last
    problem the first one again.

    Raises InvalidValueError for k, rounds and problems_of_a_round below 1, and the last two with a
    run.
    """

    model: str
    problems: str
    out: str
    k: int
    run: str | None = None
    eval: dict[str, Any] = dataclasses.field(default_factory=dict)
    rounds: int = 1
    problems_of_a_round: int | None = None
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)
    peft: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self)
        whole("k", self.k, 1)
        whole("rounds", self.rounds, 1)
        drawing = self.eval_recipe(self.model, Path(self.out), 0)
        if self.run is None:
            samples = drawing.sampling.samples
            require(self.k <= samples, "k", f"at most {samples}", self.k)
        else:
            require(self.rounds == 1, "rounds", "1 with a run", self.rounds)
        if self.problems_of_a_round is not None:
            whole("problems_of_a_round", self.problems_of_a_round, 1)
            allowed = "left out with a run"
            require(self.run is None, "problems_of_a_round", allowed, self.problems_of_a_round)

    def eval_recipe(self, model: str, out: Path, number: int) -> EvalRecipe:
        """Return how a round draws, with a seed of its own and as if it were for all problems."""
        settings_of_round = {"model": model, "problems": self.problems, "out": str(out)}
        settings = merged(self.eval, settings_of_round, where="eval")
        recipe = from_mapping(EvalRecipe, settings, where="eval")
        require(recipe.shard is None, "eval.shard", "left out of a distillation", recipe.shard)
        sampling = dataclasses.replace(recipe.sampling, seed=recipe.sampling.seed + number)
        return dataclasses.replace(recipe, sampling=sampling)


class DistillConfig(HiddenToken, SFTConfig):
    """TRL's settings of supervised training, pickled without the token of the hub."""


def config_of(recipe: DistillRecipe, out: Path) -> DistillConfig:
    """Return the settings of TRL's trainer; raise InvalidValueError for one that is not allowed."""
    chosen_here = {"output_dir": str(out), "remove_unused_columns": False, **_LOSS_SETTINGS}
    chosen_by_recipe = {"max_length": None, **recipe.trainer}  # TRL would cut samples at 1024
    config = trainer_settings(DistillConfig, chosen_by_recipe, chosen_here)
    check_unread(config)
    check_trackers(config.report_to)
    why = "in a distillation, which learns samples as they were drawn"
    require_settings(config, _COMPLETIONS_AS_DRAWN, why)
    return config


def checked_settings(recipe: DistillRecipe) -> DistillConfig:
    """Return the settings of TRL's trainer, after all checks that need no weights.

    Raises as `distill`.
    """
    if recipe.run is None:
        allowed = "a folder that `maxatk eval` wrote, in which several processes find the samples"
        require(process_count() == 1, "run", allowed, recipe.run)
    config = config_of(recipe, Path(recipe.out))
    check_processes(config)
    refuse_missing_login(config)
    adapter = lora_config(recipe.peft)
    refuse_missing_model(recipe.model)
    config_to_train(config, recipe.model, adapter)
    _check_special_tokens(config, recipe)
    if recipe.problems_of_a_round is None:
        load_problems(recipe.problems, limit=1)
    else:
        check_problems_of_a_round(recipe, len(load_problems(recipe.problems)))
    if recipe.run is not None and not (Path(recipe.run) / SCORES).is_file():
        raise MissingFileError(f"run: {recipe.run}: holds no {SCORES}")
    if recipe.run is not None:
        _warn_of_another_prompt(recipe, Path(recipe.run))
    return config


def check_problems_of_a_round(recipe: DistillRecipe, count: int) -> None:
    """Raise InvalidValueError where a round is to draw for more problems than there are."""
    limit = recipe.eval.get("limit")
    count = count if limit is None else min(count, limit)
    size = recipe.problems_of_a_round
    allowed = f"at most the {count} problems that there are"
    require(size is None or size <= count, "problems_of_a_round", allowed, size)


def _check_special_tokens(config: SFTConfig, recipe: DistillRecipe) -> None:
    """Refuse tokens that the tokenizer does not have, which TRL looks for behind the samples."""
    if config.eos_token is None and config.pad_token is None:
        return
    drawing = recipe.eval_recipe(recipe.model, Path(recipe.out), 0)
    vocabulary = load_tokenizer(recipe.model, prompt=drawing.prompt).get_vocab()
    for name in ("eos_token", "pad_token"):
        token = getattr(config, name)
        is_known = token is None or token in vocabulary
        require(is_known, f"trainer.{name}", "a token of the model's tokenizer", token)


def _warn_of_another_prompt(recipe: DistillRecipe, run: Path) -> None:
    """Warn where the samples of a run were drawn after another prompt than is trained after.

    It may be meant: a model can learn to answer without a system turn as it does with one.
    """
    manifest = read_json(run / MANIFEST) if (run / MANIFEST).is_file() else {}
    model_settings = manifest.get("settings", {}).get("model") or {}
    sampled_after = model_settings.get("prompt")
    if sampled_after is None:  # samples of a server, or from elsewhere
        return
    trained_after = recipe.eval_recipe(recipe.model, run, 0).prompt.to_json()
    differences = list(differing_settings(sampled_after, trained_after, "prompt"))
    if differences:
        warnings.warn(
            f"run: the samples in {run} were drawn after another prompt than the model is to "
            f"learn to answer, which `eval` says: {'; '.join(differences)}",
            stacklevel=2,
        )
