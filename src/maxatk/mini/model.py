"""The embedded model (Qwen2's architecture, 250,000 parameters), its tokenizer and warm start."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from maxatk.mini.problems import MiniProblem, Noise
from maxatk.mini.settings import WarmStart

CONTEXT = 128  # tokens; the longest prompt with its completion needs about 80
END_OF_TEXT = "<|endoftext|>"
VOCABULARY = 192
# `tokenizers` writes a space as this character inside byte-level vocabularies, a newline as Ċ.
_BYTE_LEVEL = str.maketrans({" ": "Ġ", "\n": "Ċ"})
_IGNORED = -100  # label of the tokens that carry no loss: prompts and padding
_BUCKET_BATCHES = 50  # examples are sorted by length inside windows of this many batches


def new_model(tokenizer: PreTrainedTokenizerBase, *, seed: int) -> Qwen2ForCausalLM:
    """Return a freshly initialised float32 model for `tokenizer`, the same one for a seed."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config).float()


def train_tokenizer(
    texts: Sequence[str], *, vocabulary: int = VOCABULARY
) -> PreTrainedTokenizerBase:
    """Return a tokenizer of `vocabulary` entries, characters and fragments learnt from `texts`.

    Fragments never cross a newline or touch a digit, so a line of a program is one to three tokens
    and numbers are read digit by digit. Characters that `texts` lack are dropped when encoding.
    """
    characters = sorted({character for text in texts for character in text})
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", behavior="merged_with_previous"),
            pre_tokenizers.Split(Regex("[0-9]"), behavior="isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=vocabulary - 1, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    ranked = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    singles = [END_OF_TEXT, *(character.translate(_BYTE_LEVEL) for character in characters)]
    tokenizer = Qwen2Tokenizer(
        vocab={token: number for number, token in enumerate(singles)},
        merges=[],
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        padding_side="left",
    )
    # AutoTokenizer replaces rules of pre-tokenization by Qwen2's beside a Qwen2 model, silently and
    # with other ids; added tokens it keeps.
    fragments = [token for token, _ in ranked if len(token) > 1]
    tokenizer.add_tokens([AddedToken(fragment, normalized=False) for fragment in fragments])
    return tokenizer


def noisy_corpus(
    problems: Iterable[MiniProblem], *, noise: Noise, seed: int
) -> list[tuple[str, str]]:
    """Return one (prompt, spoilt solution) pair for every problem."""
    rng = random.Random(f"noise/{seed}")
    return [(mini.problem.prompt, mini.noisy(rng, noise)) for mini in problems]


def warm_start(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    corpus: Sequence[tuple[str, str]],
    *,
    settings: WarmStart,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train `model` in place for one epoch over pairs of prompt and completion.

    Returns the loss of every step: the mean negative log-likelihood of a completion's token in
    nats, end of text included. `seed` fixes the order of the pairs. `progress(done, total)` is
    called after every optimizer step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, fused=True)
    total = math.ceil(len(corpus) / settings.batch_size)

    def factor(step: int) -> float:
        rise = min(1.0, (step + 1) / (settings.warmup_steps + 1))
        return rise * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    model.train()
    losses = []
    encoded = _encoded(tokenizer, corpus)
    for done, batch in enumerate(_batches(encoded, settings.batch_size, seed=seed), start=1):
        ids = _padded([prompt + completion for prompt, completion in batch], tokenizer.pad_token_id)
        # The loss is that of the completions alone.
        labels = _padded(
            [[_IGNORED] * len(prompt) + completion for prompt, completion in batch], _IGNORED
        )
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


def _encoded(
    tokenizer: PreTrainedTokenizerBase, corpus: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """Return the ids of every prompt, and of its completion with the end of text."""
    prompts, completions = (
        tokenizer(list(texts))["input_ids"] for texts in zip(*corpus, strict=True)
    )
    end = tokenizer.eos_token_id
    return [
        (prompt, [*completion, end])
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def _batches(
    encoded: list[tuple[list[int], list[int]]], batch_size: int, *, seed: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield every example once, in random batches of about equal length (less padding)."""
    rng = random.Random(f"batches/{seed}")
    order = rng.sample(range(len(encoded)), len(encoded))
    lengths = [len(prompt) + len(completion) for prompt, completion in encoded]
    window = batch_size * _BUCKET_BATCHES
    # Sorted in windows, not all at once: the order stays random over the epoch.
    for start in range(0, len(order), window):
        by_length = sorted(order[start : start + window], key=lengths.__getitem__)
        starts = list(range(0, len(by_length), batch_size))
        rng.shuffle(starts)
        for first in starts:
            yield [encoded[i] for i in by_length[first : first + batch_size]]


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    tensors = [torch.tensor(row) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value)
