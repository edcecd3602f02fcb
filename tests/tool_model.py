"""A real tiny model whose random completions are often calls of a tool, with Qwen3's template."""

import json
from pathlib import Path

import torch
import transformers
import trl
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PROGRAMS = ["print(input())", "print(2)", "print(int(input()) + 1)", "print(", "1 / 0"]
END = "<|im_end|>"
_SPECIAL = [END, "<pad>", "<|im_start|>"]
_WORDS = [
    "<unk>", "\n", "user", "assistant", "<tool_response>", "</tool_response>", "<think>",
    "</think>", "passed", "failed", "right", "wrong", *"0123456789",
]  # fmt: skip


def call(name, **arguments):
    """The text of one call, as the template writes it."""
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


SUBMISSIONS = [call("submit", program=program) for program in PROGRAMS]


PLAIN = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A chat template that knows no tools."""


def save_tool_model(folder, calls=SUBMISSIONS, *, template=None, seed=0):
    """Save a model with one token for each of the calls, and return its folder."""
    vocabulary = [*_SPECIAL, *_WORDS, *calls]
    words = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
    words.decoder = decoders.Fuse()
    ordinary = [AddedToken(word, special=False, normalized=False) for word in vocabulary[3:]]
    words.add_tokens(ordinary)
    words.add_special_tokens([AddedToken(word, special=True) for word in _SPECIAL])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=END, pad_token="<pad>", unk_token="<unk>"
    )
    qwen = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template or qwen.read_text()
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_dim=16,
        num_key_value_heads=1,
        intermediate_size=48,
        max_position_embeddings=2048,
        initializer_range=0.12,
        eos_token_id=0,
        pad_token_id=1,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    model = transformers.Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
