"""The warm start: one epoch of supervised training on noisy solutions, prompt tokens left out."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from maxatk.check import at_least, positive
from maxatk.mini.problems import MiniProblem, Noise

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

_IGNORED = -100  # label of the tokens that carry no loss: prompts and padding
_BUCKET_BATCHES = 50  # examples are sorted by length inside windows of this many batches


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start: one epoch of supervised training.

    Args:
        problems: Solved problems of the epoch.
        batch_size: Problems of an optimizer step.
        learning_rate: The peak, at the start of a cosine.
        warmup_steps: Optimizer steps of the rise to it.
        noise: How the solutions are spoilt.
    """

    problems: int = 45_000
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    noise: Noise = dataclasses.field(default_factory=Noise)

    def __post_init__(self) -> None:
        at_least("problems", self.problems, 1)
        at_least("batch_size", self.batch_size, 1)
        positive("learning_rate", self.learning_rate)


def noisy_corpus(
    problems: Iterable[MiniProblem], *, noise: Noise, seed: int
) -> list[tuple[str, str]]:
    """Return one (prompt, spoilt solution) pair for every problem."""
    rng = random.Random(f"noise/{seed}")
    return [(p.problem.prompt, p.noisy(rng, noise)) for p in problems]


def warm_start(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    corpus: Sequence[tuple[str, str]],
    *,
    settings: WarmStart,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train `model` in place for one epoch over `corpus` and return the loss of every step.

    The loss is the mean negative log-likelihood of a completion's token in nats, end of text
    included.

    Args:
        model: The model, changed in place.
        tokenizer: Its tokenizer.
        corpus: Pairs of prompt and completion.
        settings: Batch size, learning rate and warm-up.
        seed: Fixes the order of the pairs.
        progress: Called as progress(done, total) after every optimizer step.
    """
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, fused=True)
    total = math.ceil(len(corpus) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: _learning_rate_factor(step, settings.warmup_steps, total)
    )
    model.train()
    losses = []
    encoded = _encode(tokenizer, corpus)
    for done, batch in enumerate(_batches(encoded, settings.batch_size, seed=seed), start=1):
        ids, labels = _collate(batch, padding=tokenizer.pad_token_id)
        # Padding stands on the right, behind a causal mask: no attention mask is needed.
        logits = model(input_ids=ids, use_cache=False).logits
        loss = cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(float(loss.detach()))
        if progress is not None:
            progress(done, total)
    model.eval()
    return losses


def _learning_rate_factor(step: int, warmup: int, total: int) -> float:
    rise = min(1.0, (step + 1) / (warmup + 1))
    return rise * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))


def _encode(
    tokenizer: PreTrainedTokenizerBase, corpus: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """Return (prompt ids, completion ids with end of text) for every pair."""
    prompts = tokenizer([prompt for prompt, _ in corpus])["input_ids"]
    completions = tokenizer([completion for _, completion in corpus])["input_ids"]
    return [(p, [*c, tokenizer.eos_token_id]) for p, c in zip(prompts, completions, strict=True)]


def _batches(
    encoded: list[tuple[list[int], list[int]]], batch_size: int, *, seed: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield every example once, in random batches of about equal length (less padding)."""
    rng = random.Random(f"batches/{seed}")
    order = rng.sample(range(len(encoded)), len(encoded))
    lengths = [len(prompt) + len(completion) for prompt, completion in encoded]
    window = batch_size * _BUCKET_BATCHES
    for start in range(0, len(order), window):
        by_length = sorted(order[start : start + window], key=lengths.__getitem__)
        starts = list(range(0, len(by_length), batch_size))
        rng.shuffle(starts)
        for first in starts:
            yield [encoded[i] for i in by_length[first : first + batch_size]]


def _collate(
    batch: list[tuple[list[int], list[int]]], *, padding: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input ids and labels, each (batch, longest), padded on the right."""
    import torch

    longest = max(len(prompt) + len(completion) for prompt, completion in batch)
    ids = torch.full((len(batch), longest), padding)
    labels = torch.full_like(ids, _IGNORED)
    for row, (prompt, completion) in enumerate(batch):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        labels[row, len(prompt) : end] = torch.tensor(completion)
    return ids, labels
