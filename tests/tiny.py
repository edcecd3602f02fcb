"""A real tiny model whose random completions are often programs that run."""

import os

import pytest
import torch

WORDS = ["<eos>", "<pad>", "<unk>", "\n", "print(1)", "print(2)", "#", "1/0", "print(3)"]


def save_tiny_model(folder, *, seed=0, architecture="Qwen2", **config):
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pattern = Regex("|".join(word.replace("(", r"\(").replace(")", r"\)") for word in WORDS[3:]))
    words.pre_tokenizer = pre_tokenizers.Split(pattern, behavior="isolated")
    words.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )
    torch.manual_seed(seed)
    shape = {
        "vocab_size": len(WORDS),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "initializer_range": 0.3,
        "eos_token_id": 0,
        "pad_token_id": 1,
        "bos_token_id": None,
    }
    settings = getattr(transformers, f"{architecture}Config")(**{**shape, **config})
    model = getattr(transformers, f"{architecture}ForCausalLM")(settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)
    os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny-model"))
