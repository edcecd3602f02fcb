"""The `hf` backend: any decoder-only transformers model, with a sampling loop of its own.

The prompt is evaluated once and its key-value cache repeated over the rows of a batch, and rows
that have ended are dropped from the batch. Memory is rows x vocabulary: the logits of one
position at a time, from which the log-probabilities and entropies are taken as they pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.evaluation.backends.loop import sample_rows
from maxatk.evaluation.backends.model_settings import ModelSettings
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.models import fingerprint, load_tokenizer, prompt_ids, refuse_missing_folder
from maxatk.records import Sample

_MOST_ROWS = 256


class HFBackend:
    """Draw samples from a local folder or a hub name.

    Sample `s` of a problem depends on the seed, the problem id and `s` alone, up to the rounding
    of the batched matrix products; batches are the fixed chunks [0, B), [B, 2B), ... of the
    sample indices, so that with one batch size `B` a repeated run is the same to the last bit.

    `logprob` is the sum over sampled tokens of log softmax(logits / temperature), in nats, before
    any top-p cut; `entropy` is the mean entropy of these distributions, in nats. The end token
    counts as a sampled token. At temperature 0 both are taken at temperature 1.

    Raises MissingFileError when `model` cannot be loaded, InvalidValueError for a bad batch size.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        dtype: str = "auto",
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InvalidValueError(f"batch_size: must be 1 or more, got {batch_size!r}")
        self.name = str(model)
        refuse_missing_folder(self.name)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        try:
            with _no_progress_bar():
                self.tokenizer = load_tokenizer(self.name)
                self.model = AutoModelForCausalLM.from_pretrained(self.name, dtype=dtype)
        except OSError as error:
            raise MissingFileError(f"model {self.name!r}: cannot be loaded: {error}") from error
        self.model.to(self.device).eval()
        self.batch_size = batch_size or 0  # 0 until `check` has chosen one
        self._end_tokens = _end_tokens(self.model, self.tokenizer)

    @classmethod
    def open(cls, model: str, settings: ModelSettings) -> HFBackend:
        """Return the backend with its model; raises as the class, and for settings of others."""
        settings.refuse("server")
        return cls(
            model, dtype=settings.dtype, device=settings.device, batch_size=settings.batch_size
        )

    def describe(self) -> dict[str, Any]:
        """Return model name, fingerprint of the weights, dtype, device and batch size."""
        return {
            "name": "hf",
            "model": self.name,
            "weights": fingerprint(self.name),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": self.device.type,
            "batch_size": self.batch_size,
        }

    def check(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Choose the batch size if none was given; refuse prompts that do not fit the model.

        Raises InvalidValueError for an empty prompt or one too long for the context.
        """
        limit = getattr(self.model.config, "max_position_embeddings", None)
        longest = 0
        for problem_id, prompt in prompts.items():
            length = len(prompt_ids(self.tokenizer, prompt))
            longest = max(longest, length)
            if length == 0:
                raise InvalidValueError(f"problem {problem_id!r}: the prompt has no tokens")
            if limit is not None and length + settings.max_new_tokens > limit:
                raise InvalidValueError(
                    f"problem {problem_id!r}: prompt of {length} tokens and max_new_tokens="
                    f"{settings.max_new_tokens} exceed the model's context of {limit}"
                )
        if not self.batch_size:
            self.batch_size = self._fitting_batch_size(longest + settings.max_new_tokens)

    def sample(
        self, problem_id: str, prompt: str, indices: Sequence[int], settings: SamplingSettings
    ) -> list[Sample]:
        """Return the samples of one problem with these indices, in order.

        Whole chunks are drawn and the samples asked for are returned, so that a resumed run gets
        the very samples it would have got. Raises InvalidValueError for an index out of range.
        """
        for index in indices:
            if not 0 <= index < settings.samples:
                raise InvalidValueError(
                    f"sample index: must be in [0, {settings.samples}), got {index!r}"
                )
        if not self.batch_size:
            self.check({problem_id: prompt}, settings)
        rows = self.batch_size
        drawn: dict[int, Sample] = {}
        for chunk in sorted({index // rows for index in indices}):
            start, stop = chunk * rows, min((chunk + 1) * rows, settings.samples)
            for sample in self._sample_chunk(problem_id, prompt, start, stop, settings):
                drawn[sample.sample] = sample
        return [drawn[index] for index in indices]

    def _sample_chunk(
        self, problem_id: str, prompt: str, start: int, stop: int, settings: SamplingSettings
    ) -> list[Sample]:
        noise = sampling_noise(problem_id, stop, settings)[start:]
        drawn = sample_rows(
            self.model,
            torch.tensor([prompt_ids(self.tokenizer, prompt)], device=self.device),
            torch.from_numpy(noise).to(self.device),
            end_tokens=torch.tensor(self._end_tokens, device=self.device),
            temperature=settings.temperature,
            top_p=settings.top_p,
        )
        lengths, ended = drawn.lengths.tolist(), drawn.ended.tolist()
        texts = self.tokenizer.batch_decode(
            [ids[:length] for ids, length in zip(drawn.tokens.tolist(), lengths, strict=True)],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        logprobs, entropies = drawn.logprobs.tolist(), drawn.entropies.tolist()
        return [
            Sample(
                problem_id=problem_id,
                sample=start + row,
                completion=text,
                tokens=lengths[row],
                finish_reason="stop" if ended[row] else "length",
                logprob=round(logprobs[row], 4),
                entropy=round(entropies[row] / lengths[row], 4),
            )
            for row, text in enumerate(texts)
        ]

    def _fitting_batch_size(self, positions: int) -> int:
        config = self.model.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_size = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        cache = 2 * config.num_hidden_layers * heads * head_size * self.model.dtype.itemsize
        # Appending to a cache copies it: two of them are alive at a time. Six rows of float32
        # over the vocabulary are what the sampling step needs.
        row = 2 * cache * positions + 6 * 4 * config.vocab_size
        fitting = max(1, _free_memory(self.device) // 2 // row)
        return min(_MOST_ROWS, 1 << (int(fitting).bit_length() - 1))


def sampling_noise(problem_id: str, rows: int, settings: SamplingSettings) -> np.ndarray:
    """Return the uniform numbers in [0, 1) behind samples 0 to rows - 1: (rows, max_new_tokens).

    Row `s` does not depend on `rows`, nor on which other problems or samples are drawn.
    """
    identity = hashlib.sha256(f"{settings.seed}\0{problem_id}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(identity, "big"))
    return generator.random((rows, settings.max_new_tokens), dtype=np.float32)


@contextlib.contextmanager
def _no_progress_bar() -> Iterator[None]:
    # A library writes nothing to the terminal; transformers draws a bar over the weights.
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    declared = model.generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [declared]
    return sorted({token for token in [*ends, tokenizer.eos_token_id] if token is not None})


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
