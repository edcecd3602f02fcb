"""What decides a model's numerics, and whether an adapter is the model's, without a GPU."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk import environment
from maxatk.errors import InvalidValueError
from maxatk.sampling import ModelSettings, loading
from maxatk.sampling.dtypes import faster_dtype
from maxatk.sampling.loading import check_adapter, load_model, reason_of

LARGE = 40_000_000  # weights


@pytest.mark.parametrize(
    ("stored", "capability", "expected"),
    [
        ("float32", (8, 0), "bfloat16"),
        ("float32", (9, 0), "bfloat16"),
        ("float32", (7, 5), "float32"),  # no instructions for it
        ("float16", (9, 0), "float16"),
        ("bfloat16", (9, 0), "bfloat16"),
    ],
)
def test_large_float32_files_are_computed_in_bfloat16_on_a_gpu(
    monkeypatch, caplog, stored, capability, expected
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert faster_dtype("m", stored=stored, weights=LARGE, device="cuda") == expected
    is_told = "m: computed in bfloat16, which this GPU is faster in" in caplog.text
    assert is_told == (expected != stored)


def test_small_models_and_other_devices_keep_float32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert faster_dtype("m", stored="float32", weights=44, device="cuda") == "float32"
    assert faster_dtype("m", stored="float32", weights=LARGE, device="mps") == "float32"


ZEN_1 = "flags : fpu fma avx avx2\n"
SAPPHIRE_RAPIDS = "flags : fpu fma avx2 avx512_bf16 avx512_fp16 amx_bf16\n"
NEOVERSE_V1 = "Features : fp asimd fphp asimdhp bf16\n"


@pytest.mark.parametrize(
    ("cpu", "stored", "weights", "expected"),
    [
        (ZEN_1, "bfloat16", 44, "float32"),
        (ZEN_1, "bfloat16", LARGE, "float32"),
        (ZEN_1, "float16", LARGE, "float32"),
        (ZEN_1, "float32", LARGE, "float32"),
        (ZEN_1, "bfloat16", 10**15, "bfloat16"),  # no machine holds it in float32
        (SAPPHIRE_RAPIDS, "bfloat16", LARGE, "bfloat16"),
        (SAPPHIRE_RAPIDS, "float16", LARGE, "float16"),
        (SAPPHIRE_RAPIDS, "float32", LARGE, "bfloat16"),
        (NEOVERSE_V1, "bfloat16", LARGE, "bfloat16"),
        (NEOVERSE_V1, "float16", LARGE, "float16"),
        ("", "bfloat16", LARGE, "bfloat16"),  # the instructions are not known
    ],
)
def test_a_cpu_computes_in_what_it_has_instructions_for(
    cpuinfo, caplog, cpu, stored, weights, expected
):
    cpuinfo(cpu)
    assert faster_dtype("m", stored=stored, weights=weights, device="cpu") == expected
    is_told = f"dtype {stored} keeps that" in caplog.text
    assert is_told == (expected != stored)


def test_a_model_of_bfloat16_files_stays_so_where_that_is_asked_for(
    tiny_model, tmp_path, cpuinfo, caplog
):
    stored = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    stored.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path)
    cpuinfo(ZEN_1)
    model, _, stored_dtype = load_model(str(tmp_path), ModelSettings(device="cpu"))
    assert (model.dtype, stored_dtype) == (torch.float32, "bfloat16")
    caplog.clear()
    model, _, _ = load_model(str(tmp_path), ModelSettings(device="cpu", dtype="bfloat16"))
    assert model.dtype == torch.bfloat16
    assert "dtype bfloat16: this CPU has no instructions for it" in caplog.text


def test_a_model_asked_for_in_float32_stays_so(tiny_model, monkeypatch):
    monkeypatch.setattr(loading, "faster_dtype", lambda *_, **__: "bfloat16")
    assert load_model(str(tiny_model), ModelSettings())[0].dtype == torch.bfloat16
    model, _, stored = load_model(str(tiny_model), ModelSettings(dtype="float32"))
    assert (model.dtype, stored) == (torch.float32, "float32")


def shaped(name, size=16, device="meta"):
    import transformers

    names = {"n_layer": 2, "n_head": 2, "n_embd": size}
    if name != "GPT2":
        names = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": size}
    config = getattr(transformers, f"{name}Config")(vocab_size=9, **names)
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("architecture", ["Qwen2", "GPT2"])
@pytest.mark.parametrize(
    "more", [{}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}], ids=["", "dora", "whole"]
)
def test_every_adapter_that_peft_writes_is_its_models(tmp_path, architecture, more):
    from peft import LoraConfig, get_peft_model

    target = "all-linear" if architecture == "Qwen2" else ["c_attn", "c_proj", "wte"]
    model = shaped(architecture, device="cpu")
    get_peft_model(model, LoraConfig(r=4, target_modules=target, **more)).save_pretrained(tmp_path)
    check_adapter(str(tmp_path), shaped(architecture))
    for other in (shaped("Llama", 32), shaped(architecture, 32)):
        with pytest.raises(InvalidValueError, match=r"is not of this model: .*'base_model\.model"):
            check_adapter(str(tmp_path), other)


PYDANTIC = """1 validation error for ModelConfig
  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len \
(max_position_embeddings=8192). [type=value_error, input_value=ArgsKwargs((), {'model': 'x'})]
    For further information visit https://errors.pydantic.dev/2.12/v/value_error"""


def test_the_reason_of_an_engine_is_one_line_that_says_it():
    assert reason_of(ValueError(PYDANTIC)) == (
        "1 validation error for ModelConfig Value error, User-specified max_model_len (100000) is "
        "greater than the derived max_model_len (max_position_embeddings=8192)."
    )
    assert reason_of(RuntimeError("first\nEngine core failed\n")) == "first Engine core failed"
    assert reason_of(KeyError()) == "KeyError"


def test_the_environment_names_gpus_driver_and_engines(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\nprintf "NVIDIA H100, 550.54\\nNVIDIA H100, 550.54\\n"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    machine = environment.environment()
    assert (machine["gpu"], machine["driver"]) == ("2 x NVIDIA H100", "550.54")
    assert machine["trl"].count(".") == 2
    assert "vllm" not in machine or machine["vllm"]
    tool.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert "gpu" not in environment.environment()


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_here_is_refused_before_the_weights(tmp_path, device):
    folder = tmp_path / "without-weights"
    folder.mkdir()
    with pytest.raises(InvalidValueError, match=f"device: '{device}' cannot be used here: "):
        load_model(str(folder), ModelSettings(device=device))
