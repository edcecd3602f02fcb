"""The embedded language model: the Qwen2 architecture at a quarter of a million parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

CONTEXT = 128  # tokens; the longest prompt with its completion needs about 80


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
