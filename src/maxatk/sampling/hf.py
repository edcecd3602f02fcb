"""The `hf` backend: any decoder-only transformers model, with a sampling loop of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maxatk.models import prompt_ids
from maxatk.records import Sample
from maxatk.sampling.backend import Backend, check_lengths, describe_files, stop_tokens
from maxatk.sampling.decoder import Decoder
from maxatk.sampling.draw import Stopper
from maxatk.sampling.loading import load_model
from maxatk.sampling.lone_decoder import LoneDecoder
from maxatk.sampling.loop import DrawnRow, Loop, Work
from maxatk.sampling.memory import free_bytes
from maxatk.sampling.prompt_states import shares
from maxatk.sampling.settings import ModelSettings, Request, SamplingSettings
from maxatk.sampling.supported import supports

_MOST_ROWS = 256


class HFBackend(Backend):
    """Draw samples from a local folder or a hub name, with rows x vocabulary as memory.

    Sample `s` of a problem depends on the seed, the problem id and `s` alone, up to rounding: on a
    CPU and one thread to the last bit, since PyTorch rounds alike from four rows of a product on.

    `logprob` is the sum over sampled tokens of log softmax(logits / temperature), in nats, before
    any cut of the distribution; `entropy` is the mean entropy of these distributions, in nats. The
    end token counts as a sampled token, and so do tokens behind a stop text. At temperature 0 both
    are taken at temperature 1. Raises what `load_model` raises.
    """

    def __init__(self, model: str | Path, settings: ModelSettings) -> None:
        self.name = str(model)
        self.settings = settings
        self.model, self.tokenizer, self.stored_dtype = load_model(self.name, settings)
        self.device = self.model.device
        self.batch_size = settings.batch_size or 0  # 0 until `prepare` has chosen one
        declared = self.model.generation_config.eos_token_id  # a list, a number or None
        end_tokens = declared if isinstance(declared, list) else [declared]
        self._end_tokens = list({*end_tokens, self.tokenizer.eos_token_id} - {None})
        self.keeps_full = supports(self.model)

    def describe(self) -> dict[str, Any]:
        """Return what was loaded, how it computes, and how a prompt becomes tokens."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        facts = {
            "dtype": dtype,
            "stored_dtype": None if self.stored_dtype == dtype else self.stored_dtype,
            "device": self.device.type,
            "gpu": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "decoder": "batch" if self.keeps_full else "prompt by prompt",
            "batch_size": self.batch_size,
        }
        return describe_files("hf", self.name, self.settings, facts)

    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Choose a batch size if none was given; raise InvalidValueError for too long a prompt."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        longest = check_lengths(prompts, self._prompt_ids, settings.max_new_tokens, limit)
        if not self.batch_size:
            self.batch_size = self._fitting_batch_size(longest, settings)

    def draw(
        self, requests: list[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, as they are drawn."""
        if not self.batch_size:
            self.prepare({request.problem_id: request.prompt for request in requests}, settings)
        stopper = Stopper(settings, self._text)
        works = (self._work(request, settings) for request in requests if request.indices)
        for rows in self.rows(works, settings, stopper):
            yield [_sample(row, stopper) for row in rows]

    def _work(self, request: Request, settings: SamplingSettings) -> Work:
        """Return the rows of a request; the noise of sample `s` does not depend on the others."""
        indices = list(request.indices)
        noise = sampling_noise(request.problem_id, max(indices) + 1, settings)
        keys = [(request.problem_id, index) for index in indices]
        return Work(self._prompt_ids(request.prompt), keys, noise[indices])

    def rows(
        self, works: Iterable[Work], settings: SamplingSettings, stopper: Stopper
    ) -> Iterator[list[DrawnRow]]:
        """Yield the rows of works as they end."""
        size = self.batch_size
        end_tokens = [*self._end_tokens, *stop_tokens(self.tokenizer, settings.stop)]

        def loop(decoder: Decoder | LoneDecoder) -> Loop:
            return Loop(decoder, settings, end_tokens=end_tokens, stopper=stopper)

        if self.keeps_full:
            shared = shares(settings.samples, self.device)
            yield from loop(Decoder(self.model, rows=size, shared=shared)).run(works)
            return
        for work in works:
            for start in range(0, len(work.keys), size):
                rows = slice(start, start + size)
                part = Work(work.prompt, work.keys[rows], work.noise[rows])
                yield from loop(LoneDecoder(self.model, rows=size)).run([part])

    def _prompt_ids(self, prompt: str) -> list[int]:
        return prompt_ids(self.tokenizer, prompt, self.settings.prompt)

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _fitting_batch_size(self, longest_prompt: int, settings: SamplingSettings) -> int:
        """Return how many samples half of the free memory holds, a power of two."""
        config = self.model.config.get_text_config()
        query_heads = config.num_attention_heads
        heads = getattr(config, "num_key_value_heads", None) or query_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // query_heads
        # Bytes of the keys and values of one position.
        cache = 2 * config.num_hidden_layers * heads * size * self.model.dtype.itemsize
        positions = settings.max_new_tokens
        if not (self.keeps_full and shares(settings.samples, self.device)):
            positions += longest_prompt
        # A cache that grows is copied: two of them are alive at a time. Six rows of float32 over
        # the vocabulary are what the sampling step needs.
        row = 2 * cache * positions + 6 * 4 * config.vocab_size
        fitting = max(1, free_bytes(self.device) // 2 // row)
        return min(_MOST_ROWS, 1 << (int(fitting).bit_length() - 1))


def sampling_noise(problem_id: str, rows: int, settings: SamplingSettings) -> np.ndarray:
    """Return the uniform numbers in [0, 1) behind samples 0 to rows - 1: (rows, max_new_tokens)."""
    identity = hashlib.sha256(f"{settings.seed}\0{problem_id}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(identity, "big"))
    return generator.random((rows, settings.max_new_tokens), dtype=np.float32)


def _sample(drawn: DrawnRow, stopper: Stopper) -> Sample:
    problem_id, index = drawn.key
    tokens = len(drawn.ids)
    return Sample(
        problem_id=problem_id,
        sample=index,
        completion=stopper.text(drawn.ids),
        tokens=tokens,
        finish_reason="stop" if drawn.ended else "length",
        logprob=round(drawn.logprob, 4),
        entropy=round(drawn.entropy / tokens, 4),
    )
