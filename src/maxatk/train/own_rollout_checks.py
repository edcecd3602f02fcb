"""Settings, arguments and models that this package's sampling loop does not follow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from transformers import GenerationConfig, PretrainedConfig, ProcessorMixin

from maxatk.check import require
from maxatk.sampling.supported import is_plain
from maxatk.train.launch import shards_weights

# What `generation_kwargs` may change for the loop: each is a setting of the trainer too.
_SAMPLING_SETTINGS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# What the generation_config of a model may say: TRL has a value of its own for each of these, or it
# has no part in which tokens are drawn.
_WITHOUT_EFFECT = {
    "temperature",
    "top_p",
    "top_k",
    "repetition_penalty",
    "do_sample",
    "max_length",
    "max_new_tokens",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "use_cache",
    "cache_implementation",
    "disable_compile",
    "transformers_version",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict_in_generate",
    "_from_model_config",
}


def distribution_settings(config: Any) -> dict[str, Any]:
    """Return what decides the distribution, with the names that `generate` has for it."""
    values = {name: getattr(config, name) for name in _SAMPLING_SETTINGS}
    values["max_new_tokens"] = config.max_completion_length
    return values | (config.generation_kwargs or {})


def refuse_settings(config: Any) -> None:
    """Raise InvalidValueError for settings that the loop does not follow."""
    values = distribution_settings(config)
    for name, value in values.items():
        _require(
            name in (*_SAMPLING_SETTINGS, "max_new_tokens"),
            field=f"generation_kwargs.{name}",
            allowed="left out",
            why="is not `generate`",
            value=value,
        )
    # With one of the two left out the order of the cuts changes nothing.
    cuts_twice = bool(values["min_p"]) and values["top_p"] < 1
    batching = config.use_transformers_continuous_batching
    for field, allowed, why, value in (
        ("fsdp or deepspeed", False, "needs whole weights", shards_weights(config)),
        ("torch_compile", False, "changes the shape of its steps", config.torch_compile),
        ("disable_dropout", True, "evaluates a prompt once", config.disable_dropout),
        ("use_transformers_continuous_batching", False, "is not `generate`", batching),
        ("cache_implementation", None, "has a cache of its own", config.cache_implementation),
        ("repetition_penalty", 1.0, "has no penalties", values["repetition_penalty"]),
        ("min_p", None, "cuts by min_p before top_p", values["min_p"] if cuts_twice else None),
    ):
        _require(value == allowed, field=field, allowed=repr(allowed), why=why, value=value)


def refuse_arguments(*, rollout_func: Any, processing_class: Any, adapters: Iterable[Any]) -> None:
    """Raise InvalidValueError for arguments of the trainer that the loop has no use for."""
    _require(
        rollout_func is None,
        field="rollout_func",
        allowed="None",
        why="samples by itself",
        value="one",
    )
    _require(
        not isinstance(processing_class, ProcessorMixin),
        field="processing_class",
        allowed="a tokenizer",
        why="reads text alone",
        value="a processor",
    )
    # These put learned positions before a prompt, which no layer of the model has.
    learned_prompts = [adapter.peft_type for adapter in adapters if adapter.is_prompt_learning]
    _require(
        not learned_prompts,
        field="peft_config",
        allowed="LoRA",
        why="needs the model's layers",
        value=learned_prompts,
    )


def _require(holds: bool, *, field: str, allowed: str, why: str, value: Any) -> None:
    """Raise InvalidValueError unless a condition holds; `why` says what the loop is or does."""
    require(holds, field, f"{allowed} with rollouts 'own', which {why}", value)


def refuse_config(config: Any, model: PretrainedConfig, name: str | None) -> None:
    """Raise InvalidValueError for a model, by config and by `name`, that the loop cannot follow."""
    generation = GenerationConfig()
    if name is not None:
        with contextlib.suppress(OSError):  # a model need not have one
            generation = GenerationConfig.from_pretrained(name)
    refuse_model(config, model, generation, is_supported=is_plain(model))


def refuse_model(
    config: Any, model: PretrainedConfig, generation: GenerationConfig, *, is_supported: bool
) -> None:
    """Raise InvalidValueError for a model whose defaults or layers the loop does not follow.

    `is_supported` says whether the loop has all kinds of its layers.
    """
    without_effect = set(_WITHOUT_EFFECT)
    if distribution_settings(config)["min_p"]:  # which wins over the model's
        without_effect.add("min_p")
    for name, value in generation.to_diff_dict().items():
        _require(
            not value or name in without_effect,
            field=f"the model's generation_config.{name}",
            allowed="left out",
            why="draws from the distribution of the model alone",
            value=value,
        )
    allowed = f"trl or auto with a {model.model_type} model of this config, which has more than"
    require(
        is_supported, "rollouts", f"{allowed} full attention of every layer to every token", "own"
    )
