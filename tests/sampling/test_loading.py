"""What decides a model's numerics, and whether an adapter is the model's, without a GPU."""

import pytest
import torch

from maxatk import environment
from maxatk.errors import InvalidValueError
from maxatk.sampling import ModelSettings, loading
from maxatk.sampling.loading import check_adapter, choose_bfloat16, load_model, reason_of


@pytest.fixture(scope="module")
def large():
    """A model of 40 million weights that takes no memory."""
    with torch.device("meta"):
        return torch.nn.Linear(10_000, 4_000)


@pytest.fixture(autouse=True)
def parameters(monkeypatch):
    count = lambda self: sum(part.numel() for part in self.parameters())  # noqa: E731
    monkeypatch.setattr(torch.nn.Linear, "num_parameters", count, raising=False)


@pytest.mark.parametrize(
    ("stored", "capability", "expected"),
    [
        ("float32", (8, 0), True),
        ("float32", (9, 0), True),
        ("float32", (7, 5), False),  # no instructions for it
        ("float16", (9, 0), False),
        ("bfloat16", (9, 0), False),
    ],
)
def test_large_float32_files_are_computed_in_bfloat16_on_a_gpu(
    large, monkeypatch, caplog, stored, capability, expected
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert choose_bfloat16("m", stored, large, "cuda") == expected
    assert ("m: computed in bfloat16, which this GPU is faster in" in caplog.text) == expected


def test_small_models_and_other_devices_keep_float32(large, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert not choose_bfloat16("m", "float32", torch.nn.Linear(10, 4), "cuda")
    assert not choose_bfloat16("m", "float32", large, "mps")


def test_a_model_asked_for_in_float32_stays_so(tiny_model, monkeypatch):
    monkeypatch.setattr(loading, "choose_bfloat16", lambda *_: True)
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
