"""The embedded language model and its tokenizer.

The model has Qwen2's architecture at a quarter of a million parameters. The tokenizer has whole
fragments of program lines as tokens, 192 in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

CONTEXT = 128  # tokens; the longest prompt with its completion needs about 80
END_OF_TEXT = "<|endoftext|>"
VOCABULARY = 192
# `tokenizers` writes a space as this character inside byte-level vocabularies, a newline as Ċ.
_BYTE_LEVEL = str.maketrans({" ": "Ġ", "\n": "Ċ"})


def new_model(tokenizer: PreTrainedTokenizerBase, *, seed: int) -> Qwen2ForCausalLM:
    """Return a freshly initialised float32 model for `tokenizer`, the same one for a seed."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

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
    """Return a tokenizer of `vocabulary` entries learnt from `texts`.

    The entries longer than one character come from byte-pair merges that never cross a newline
    or touch a digit, so a line of a program is one to three tokens and numbers are read digit by
    digit. Characters that `texts` lack are dropped when encoding.

    The learnt entries become added tokens of a Qwen2 tokenizer. A byte-pair tokenizer with
    pre-tokenization rules of its own would be simpler, but AutoTokenizer replaces such rules by
    Qwen2's beside a Qwen2 model, silently and with other ids; added tokens it keeps.
    """
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer

    characters = sorted({character for text in texts for character in text})
    fragments = _learn_fragments(texts, vocabulary - 1)
    singles = [END_OF_TEXT, *(character.translate(_BYTE_LEVEL) for character in characters)]
    tokenizer = Qwen2Tokenizer(
        vocab={token: number for number, token in enumerate(singles)},
        merges=[],
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        padding_side="left",
    )
    tokenizer.add_tokens([AddedToken(fragment, normalized=False) for fragment in fragments])
    return tokenizer


def _learn_fragments(texts: Sequence[str], vocabulary: int) -> list[str]:
    """Return the entries of more than one character of a byte-pair vocabulary of that size."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", behavior="merged_with_previous"),
            pre_tokenizers.Split(Regex("[0-9]"), behavior="isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    ranked = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    return [token for token, _ in ranked if len(token) > 1]
