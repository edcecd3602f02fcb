"""The `vllm` backend: vLLM's engine in this process."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Before the import. The engine in a process of its own would survive a SIGKILL of this one, and
# standard output is for results.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from maxatk.check import require
from maxatk.errors import InvalidValueError
from maxatk.models import load_tokenizer, prompt_ids
from maxatk.records import Sample
from maxatk.sampling.backend import Backend, check_lengths, describe_files, stop_tokens
from maxatk.sampling.dtypes import faster_dtype
from maxatk.sampling.loading import check_adapter, found_or_missing, reason_of
from maxatk.sampling.settings import ModelSettings, Request, SamplingSettings, sample_seed

_BATCH = 256
_OURS = ("model", "tokenizer", "dtype", "revision", "generation_config", "enable_lora")
_BATCHED_TOKENS = 8192  # at a time, of prompts that are not evaluated in chunks


class VLLMBackend(Backend):
    """Draw samples with vLLM's engine, each with a seed of its own; at most `batch_size` are in it.

    `logprob` is vLLM's `cumulative_logprob`, taken before the temperature: it is given at
    temperature 1, and at 0. vLLM has no entropies. Raises MissingFileError for a model or an
    adapter that is not there, InvalidValueError for settings that the engine does not start with.
    """

    def __init__(self, model: str, settings: ModelSettings) -> None:
        self.name = model
        self.settings = settings
        self.batch_size = settings.batch_size or _BATCH
        for name in _OURS:
            if name in settings.engine:
                raise InvalidValueError(f"engine.{name}: is decided by maxatk; leave it out")
        revision = settings.revision
        with found_or_missing(model):
            self.tokenizer = load_tokenizer(model, revision=revision, prompt=settings.prompt)
            config = AutoConfig.from_pretrained(model, revision=revision or "main")
        self._adapter = None
        if settings.adapter is not None:
            check_adapter(settings.adapter, _without_weights(config))
            self._adapter = LoRARequest("adapter", 1, settings.adapter)
        arguments = _engine_arguments(settings, config, self.batch_size)
        try:
            self.engine = LLM(model=model, dtype=_dtype(model, settings, config), **arguments)
        except Exception as error:  # whatever the engine, its platform and pydantic raise
            raise InvalidValueError(
                f"engine: vLLM does not start with {json.dumps(dict(settings.engine))}: "
                f"{reason_of(error)}"
            ) from error

    def describe(self) -> dict[str, Any]:
        """Return what was loaded, what the engine made of it, and how a prompt becomes tokens."""
        made = self.engine.llm_engine.model_config
        facts = {
            "dtype": str(made.dtype).removeprefix("torch."),
            "device": current_platform.device_type,
            "gpu": None if current_platform.is_cpu() else current_platform.get_device_name(),
            "batch_size": self.batch_size,
            "context": made.max_model_len,
            "engine": dict(self.settings.engine),
        }
        return describe_files("vllm", self.name, self.settings, facts)

    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Raise InvalidValueError for prompts and settings that the engine would refuse, or cut."""
        if settings.stop_at_fence:
            raise InvalidValueError("stop_at_fence: the backend 'vllm' cannot stop there")
        temperature = settings.temperature
        require(temperature <= 2, "temperature", "2 at most with the backend 'vllm'", temperature)
        context = self.engine.llm_engine.model_config.max_model_len
        check_lengths(prompts, self._prompt_ids, settings.max_new_tokens, context)

    def draw(
        self, requests: list[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, as they are drawn."""
        engine = self.engine.llm_engine
        ends = stop_tokens(self.tokenizer, settings.stop)
        waiting = self._waiting(requests)
        under_way: dict[str, tuple[str, int]] = {}
        try:
            while True:
                for problem_id, index, ids in itertools.islice(
                    waiting, self.batch_size - len(under_way)
                ):
                    name = f"{problem_id}\0{index}"
                    seed = sample_seed(settings.seed, problem_id, index)
                    engine.add_request(
                        name,
                        {"prompt_token_ids": ids},
                        _parameters(settings, seed, ends=ends),
                        lora_request=self._adapter,
                    )
                    under_way[name] = (problem_id, index)
                if not under_way:
                    return
                yield [
                    _sample(output.outputs[0], *under_way.pop(output.request_id))
                    for output in engine.step()
                    if output.finished
                ]
        finally:
            if under_way:
                engine.abort_request(list(under_way))

    def _waiting(self, requests: list[Request]) -> Iterator[tuple[str, int, list[int]]]:
        """Yield problem id, index and prompt of every sample; a prompt is encoded once."""
        for request in requests:
            ids = self._prompt_ids(request.prompt)
            for index in request.indices:
                yield request.problem_id, index, ids

    def _prompt_ids(self, prompt: str) -> list[int]:
        return prompt_ids(self.tokenizer, prompt, self.settings.prompt)


def _engine_arguments(settings: ModelSettings, config: Any, batch_size: int) -> dict[str, Any]:
    # What the model's generation_config.json says must not change the sampling.
    arguments: dict[str, Any] = {"generation_config": "vllm", "max_num_seqs": batch_size}
    if settings.revision is not None:
        arguments |= {"revision": settings.revision, "tokenizer_revision": settings.revision}
    if settings.adapter is not None:
        rank = json.loads((Path(settings.adapter) / "adapter_config.json").read_text())["r"]
        arguments |= {"enable_lora": True, "max_lora_rank": max(8, 1 << (rank - 1).bit_length())}
    if current_platform.is_cpu():
        # Seeds and prompts evaluated in chunks end the engine there: its generator has no offset.
        context = getattr(config.get_text_config(), "max_position_embeddings", 0)
        arguments |= {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(_BATCHED_TOKENS, context),
        }
    return {**arguments, **settings.engine}


def _dtype(model: str, settings: ModelSettings, config: Any) -> str:
    """Return the type that the backend "hf" would compute in; vLLM's own auto is another one."""
    stored = getattr(config.get_text_config(), "dtype", None) or getattr(config, "dtype", None)
    if settings.dtype != "auto" or stored is None:
        return settings.dtype
    name = str(stored).removeprefix("torch.")
    device = current_platform.device_type
    if name != "float32" and device != "cpu":
        return name  # transformers need not know the model, whose weights are not counted
    weights = _without_weights(config).num_parameters()
    return faster_dtype(model, stored=name, weights=weights, device=device)


def _without_weights(config: Any) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def _parameters(
    settings: SamplingSettings, seed: int, *, ends: Sequence[int] = ()
) -> SamplingParams:
    return SamplingParams(
        n=1,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p,
        max_tokens=settings.max_new_tokens,
        stop=list(settings.stop) or None,
        stop_token_ids=list(ends) or None,
        seed=seed,
        logprobs=0 if settings.temperature in (0, 1) else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _sample(output: Any, problem_id: str, index: int) -> Sample:
    logprob = output.cumulative_logprob
    return Sample(
        problem_id=problem_id,
        sample=index,
        completion=output.text,
        tokens=len(output.token_ids),
        finish_reason=output.finish_reason,
        logprob=None if logprob is None else round(float(logprob), 4),
    )
