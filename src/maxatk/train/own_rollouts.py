"""Rollout batches drawn by this package's own loop, in place of transformers' `generate`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from maxatk.errors import InvalidValueError
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper
from maxatk.sampling.loop import Loop, Work
from maxatk.sampling.prompt_states import shares
from maxatk.sampling.settings import SamplingSettings
from maxatk.sampling.supported import supports
from maxatk.train.own_rollout_checks import (
    distribution_settings,
    refuse_arguments,
    refuse_model,
    refuse_settings,
)


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
    is_auto = config.rollouts == "auto"
    if config.use_vllm or config.rollouts == "trl":
        return None
    # Elsewhere `generate` is about as fast, and follows every setting.
    if is_auto and model.device.type != "cpu":
        return None
    try:
        refuse_settings(config)
        refuse_arguments(
            rollout_func=trainer.rollout_func,
            processing_class=trainer.processing_class,
            adapters=getattr(trainer.model, "peft_config", {}).values(),
        )
        refuse_model(config, model.config, model.generation_config, is_supported=supports(model))
        values = distribution_settings(config)
        del values["repetition_penalty"]  # which is 1
        values |= {"top_k": max(values["top_k"] or 0, 0), "min_p": values["min_p"] or 0.0}
        return SamplingSettings(**values, samples=config.num_generations)
    except InvalidValueError:
        if is_auto:
            return None
        raise
