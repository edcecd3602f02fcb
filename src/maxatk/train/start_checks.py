"""What a training asks of its surroundings, the model's config and the number of prompts."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import trl
from huggingface_hub import HfApi
from trl import GRPOTrainer

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingDependencyError, counted
from maxatk.train import own_rollout_checks
from maxatk.train.config import MaxAtKConfig
from maxatk.train.recipe import TrainRecipe, check_settings, lora_config
from maxatk.train.shared_prompts import refuse_unshareable

_MODES_WITHOUT_LOGIN = ("offline", "dryrun", "disabled")  # of W&B

# Methods of TRL's trainer that are overridden, and those that are called besides.
_USED = (
    "_prepare_inputs",
    "_generate_and_score_completions",
    "_generate",
    "_generate_single_turn",
    "_tool_call_loop",
    "_get_tool_suffix_ids",
    "_calculate_rewards",
    "_compute_loss",
    "_get_per_token_logps_and_entropies",
    "_save_checkpoint",
    "_load_optimizer_and_scheduler",
    "create_model_card",
)


def check_trl() -> None:
    """Raise MissingDependencyError for a TRL that lacks a method, or reads advantages too early."""
    missing = [name for name in _USED if not hasattr(GRPOTrainer, name)]
    if not _reads_advantages_late(GRPOTrainer._compute_loss):
        missing.append("_compute_loss that reads advantages after log-probabilities")
    if missing:
        raise MissingDependencyError(
            f"trl {trl.__version__}: its GRPOTrainer lacks {', '.join(missing)}, which this "
            "trainer needs; versions 1.14 to 1.16 are known to work: pip install 'trl>=1.14,<2'"
        )


@functools.cache
def _reads_advantages_late(compute_loss: Callable[..., Any]) -> bool:
    """Return whether a loss reads the advantages after its own pass, which sets them.

    Nothing but the text of the method tells the order, and a wrong one would train on old
    advantages in silence.
    """
    source = inspect.getsource(compute_loss)
    forward = source.find("._get_per_token_logps_and_entropies(")
    return 0 <= forward < source.find('inputs["advantages"]')


class Start(NamedTuple):
    """What a training begins with, checked without its model and its problems."""

    config: MaxAtKConfig
    adapter: Any  # the LoraConfig of the recipe, None without one


def checked_start(recipe: TrainRecipe) -> Start:
    """Return settings and adapter of a recipe; raises as `train` for what they need here."""
    config = check_settings(recipe)
    refuse_missing_vllm(config)
    refuse_missing_login(config)
    return Start(config, lora_config(recipe.peft))


def refuse_missing_vllm(config: Any) -> None:
    """Raise MissingDependencyError where a recipe has vLLM sample, and it is not installed."""
    if config.use_vllm and importlib.util.find_spec("vllm") is None:
        raise MissingDependencyError(
            "trainer.use_vllm: needs the package vllm: pip install 'maxatk[vllm]'; without it "
            "trainer.use_vllm=false samples with transformers"
        )


def refuse_missing_login(config: Any) -> None:
    """Raise InvalidValueError where W&B is to get the log, and does not know who sends it.

    The first process alone does. In a terminal W&B asks for the key here, and not behind the
    loading of a model.
    """
    if "wandb" not in config.report_to or config.process_index != 0:
        return
    wandb = importlib.import_module("wandb")
    settings = wandb.setup().settings
    if wandb.run is not None or settings.mode in _MODES_WITHOUT_LOGIN:
        return
    if settings.api_key or getattr(settings, "identity_token_file", None):
        return  # a login would ask the server for the name that belongs to them
    try:
        wandb.login(verify=False)
    except Exception as error:  # of wandb's own tree
        raise InvalidValueError(
            "trainer.report_to: 'wandb' needs a login, by `wandb login` or WANDB_API_KEY "
            f"({error!s:.200}); allowed without: WANDB_MODE=offline, or another report_to"
        ) from error


def refuse_closed_hub(config: Any) -> None:
    """Raise InvalidValueError where a model is to be pushed to the hub, which lets nobody in."""
    if not config.push_to_hub:
        return
    try:
        HfApi().whoami(token=config.hub_token)
    except Exception as error:  # of the hub's own tree, and of its client
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InvalidValueError(
            "trainer.push_to_hub: needs a hub that knows you, by `hf auth login`, HF_TOKEN or "
            f"trainer.hub_token ({reason:.200}); allowed without: False"
        ) from error


def check_model(config: Any, model: Any, name: str | None) -> None:
    """Refuse a model, by its config, that some settings do not go with; `name` is its folder."""
    if config.share_prompts:
        refuse_unshareable(model)
    if config.skip_zero_advantages:
        allowed = "False with a model whose router has an auxiliary loss, which all samples have"
        require(not _has_auxiliary_loss(config, model), "skip_zero_advantages", allowed, True)
    if config.rollouts == "own":
        own_rollout_checks.refuse_config(config, model, name)


def _has_auxiliary_loss(config: Any, model: Any) -> bool:
    """Return whether TRL adds the loss of a router to that of the policy."""
    text = model.get_text_config()
    coefficient = config.router_aux_loss_coef
    if coefficient is None:
        coefficient = getattr(text, "router_aux_loss_coef", 0.0)
    return hasattr(text, "output_router_logits") and coefficient != 0.0


def check_prompts(config: Any, count: int, *, called: str) -> None:
    """Refuse so few prompts that they make no rollout batch; `called` is what holds them."""
    needed = config.generation_batch_size // config.num_generations
    if count < needed:
        raise InvalidValueError(
            f"{called}: has {counted(count, 'prompt')}, fewer than the {needed} of one rollout "
            "batch, so no step would be taken; allowed: more prompts or a smaller batch"
        )
