"""Rollout batches drawn by this package's own loop, in place of transformers' `generate`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig, PretrainedConfig, ProcessorMixin

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper
from maxatk.sampling.loop import Loop, Work
from maxatk.sampling.prompt_states import shares
from maxatk.sampling.settings import SamplingSettings
from maxatk.sampling.supported import is_plain, supports
from maxatk.train.launch import shards_weights

# What `generation_kwargs` may change for the loop.
_FOLLOWED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
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


def draw_completions(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    settings: SamplingSettings,
    end_tokens: Sequence[int],
    on_end: Callable[[int, list[int]], None],
) -> list[list[int]]:
    """Return the ids of one completion for each prompt (its ids), the end token included.

    `on_end` is called with the place of a prompt and these ids as soon as they are complete.
    Raises InvalidValueError for a prompt without a token.
    """
    if not all(prompts):
        raise InvalidValueError("prompt: one has no token, since the tokenizer knows none of it")
    # From PyTorch's generator of the CPU, whose state is in a checkpoint.
    noise = torch.rand((len(prompts), settings.max_new_tokens)).numpy()
    rows_of_prompt: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        rows_of_prompt.setdefault(tuple(prompt), []).append(row)
    shared = shares(len(prompts) / len(rows_of_prompt), model.device)
    loop = Loop(
        Decoder(model, rows=len(prompts), shared=shared),
        settings,
        end_tokens=end_tokens,
        stopper=Stopper(settings, lambda _: ""),  # nothing but the end token ends one
    )
    work = (Work(prompt, rows, noise[rows]) for prompt, rows in rows_of_prompt.items())
    ids_of_row: dict[int, list[int]] = {}
    for completion in itertools.chain.from_iterable(loop.run(work)):
        ids_of_row[completion.key] = completion.ids
        on_end(completion.key, completion.ids)
    return [ids_of_row[row] for row in range(len(prompts))]


def own_settings(trainer: Any) -> SamplingSettings | None:
    """Return how the loop samples for a trainer of TRL, None where TRL or vLLM does.

    Raises InvalidValueError where "own" was asked for and does not follow settings or model.
    """
    config = trainer.args
    model = trainer.model
    auto = config.rollouts == "auto"
    if config.use_vllm or config.rollouts == "trl":
        return None
    # Elsewhere `generate` is about as fast, and follows every setting.
    if auto and model.device.type != "cpu":
        return None
    try:
        refuse_settings(config)
        refuse_arguments(
            rollout_func=trainer.rollout_func,
            processing_class=trainer.processing_class,
            adapters=getattr(trainer.model, "peft_config", {}).values(),
        )
        _refuse_model(config, model.config, model.generation_config, plain=supports(model))
        values = _values(config)
        del values["repetition_penalty"]  # which is 1
        values |= {"top_k": max(values["top_k"] or 0, 0), "min_p": values["min_p"] or 0.0}
        return SamplingSettings(**values, samples=config.num_generations)
    except InvalidValueError:
        if auto:
            return None
        raise


def _values(config: Any) -> dict[str, Any]:
    """Return what decides the distribution, with the names that `generate` has for it."""
    values = {name: getattr(config, name) for name in _FOLLOWED}
    values["max_new_tokens"] = config.max_completion_length
    return values | (config.generation_kwargs or {})


def _require(holds: bool, name: str, value: Any, allowed: str, why: str) -> None:
    require(holds, name, f"{allowed} with rollouts 'own', which {why}", value)


def refuse_settings(config: Any) -> None:
    """Raise InvalidValueError for settings that the loop does not follow."""
    values = _values(config)
    two_cuts = bool(values["min_p"]) and values["top_p"] < 1
    batching = config.use_transformers_continuous_batching
    for name, value in values.items():
        followed = name in (*_FOLLOWED, "max_new_tokens")
        _require(followed, f"generation_kwargs.{name}", value, "left out", "is not `generate`")
    for name, value, allowed, why in (
        ("fsdp or deepspeed", shards_weights(config), False, "needs whole weights"),
        ("torch_compile", config.torch_compile, False, "changes the shape of its steps"),
        ("disable_dropout", config.disable_dropout, True, "evaluates a prompt once"),
        ("use_transformers_continuous_batching", batching, False, "is not `generate`"),
        ("cache_implementation", config.cache_implementation, None, "has a cache of its own"),
        ("repetition_penalty", values["repetition_penalty"], 1.0, "has no penalties"),
        ("min_p", values["min_p"] if two_cuts else None, None, "cuts by min_p before top_p"),
    ):
        _require(value == allowed, name, value, repr(allowed), why)


def refuse_arguments(*, rollout_func: Any, processing_class: Any, adapters: Iterable[Any]) -> None:
    """Raise InvalidValueError for arguments of the trainer that the loop has no use for."""
    _require(rollout_func is None, "rollout_func", "one", "None", "samples by itself")
    processor = isinstance(processing_class, ProcessorMixin)
    _require(not processor, "processing_class", "a processor", "a tokenizer", "reads text alone")
    # These put learned positions before a prompt, which no layer of the model has.
    learned_prompts = [adapter.peft_type for adapter in adapters if adapter.is_prompt_learning]
    _require(
        not learned_prompts, "peft_config", learned_prompts, "LoRA", "needs the model's layers"
    )


def refuse_config(config: Any, model: PretrainedConfig, name: str | None) -> None:
    """Raise InvalidValueError for a model, by config and by `name`, that the loop cannot follow."""
    generation = GenerationConfig()
    if name is not None:
        with contextlib.suppress(OSError):  # a model need not have one
            generation = GenerationConfig.from_pretrained(name)
    _refuse_model(config, model, generation, plain=is_plain(model))


def _refuse_model(
    config: Any, model: PretrainedConfig, generation: GenerationConfig, *, plain: bool
) -> None:
    without_effect = set(_WITHOUT_EFFECT)
    if _values(config)["min_p"]:  # which wins over the model's
        without_effect.add("min_p")
    why = "draws from the distribution of the model alone"
    for name, value in generation.to_diff_dict().items():
        idle = not value or name in without_effect
        _require(idle, f"the model's generation_config.{name}", value, "left out", why)
    allowed = f"trl or auto with a {model.model_type} model of this config, which has more than"
    require(plain, "rollouts", f"{allowed} full attention of every layer to every token", "own")
