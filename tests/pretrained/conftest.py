import zipfile

import pytest

from maxatk.pretrained import Pretrained

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MERGES = ["1 2", "Ġ 1", "d e", "de f", "Ġ x"]


def vocabulary():
    """Return the tokens of a byte-level tokenizer with a few merges, the special ones first."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return [*SPECIAL, *bytes_to_unicode().values(), *(m.replace(" ", "") for m in MERGES)]


def tiny_llama():
    """Return a Llama model with grouped heads and random weights, its embeddings tied."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        rope_theta=100000.0,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config).eval()


def paired_halves(weight, heads):
    """Return a projection's rows as GGUF has them: llama.cpp turns pairs, transformers halves."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path, model, *, pre="smollm", architecture="llama"):
    """Write a model as GGUF, in float32."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary())
    kinds = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.NORMAL}
    writer.add_token_types([kinds[token in SPECIAL] for token in vocabulary()])
    writer.add_token_merges(MERGES)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        values = weight.numpy()
        for part, count in heads.items():
            if part in name:
                values = paired_halves(values, count)
        short = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(f"{short.removesuffix('.weight')}.weight", values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def tiny_wheel(tmp_path):
    """Return a wheel that pip accepts, with a tiny model in it, and what describes it."""
    from maxatk.folders import file_digest

    write_gguf(tmp_path / "tiny.gguf", tiny_llama())
    info = "tiny_model-1.0.dist-info"
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.write(tmp_path / "tiny.gguf", "tiny_model/tiny.gguf")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr(f"{info}/LICENSE", "free\n")
        made.writestr(f"{info}/RECORD", "")
    wanted = Pretrained(
        title="Tiny",
        project="tiny-model",
        version="1.0",
        sha256=file_digest(wheel),
        gguf="tiny_model/tiny.gguf",
        licence=f"{info}/LICENSE",
    )
    return wheel, wanted
