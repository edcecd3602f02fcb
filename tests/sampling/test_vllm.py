import dataclasses
import importlib.machinery
import importlib.util
import sys
import types

import pytest
import torch

from maxatk.errors import MissingDependencyError
from maxatk.sampling import BACKENDS, ModelSettings, load_backend


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_without_vllm_the_error_says_what_to_install(tiny_model):
    with pytest.raises(MissingDependencyError, match=r"needs the package 'vllm': pip install "):
        load_backend(str(tiny_model), ModelSettings(backend="vllm"))


def opened(model, settings):
    """Stand for vLLM's class and return what it was opened with."""
    return settings


@pytest.mark.parametrize(
    ("gpu", "changes", "expected", "why"),
    [
        (True, {}, "vllm", "it is installed and there is a GPU"),
        (False, {}, "hf", "there is no GPU"),
        (True, {"device": "cpu"}, "hf", "vllm has no device"),
    ],
)
def test_auto_takes_vllm_on_a_gpu_and_says_so(
    tiny_model, monkeypatch, caplog, gpu, changes, expected, why
):
    module = types.ModuleType("vllm")
    module.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    for name in ("vllm", "hf"):
        row = dataclasses.replace(BACKENDS[name], path=f"{__name__}:opened")
        monkeypatch.setitem(BACKENDS, name, row)
    settings = load_backend(str(tiny_model), ModelSettings("auto", **changes))
    assert settings.backend == expected
    assert f"backend auto: {expected}, because {why}" in caplog.text


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_auto_is_hf_where_vllm_is_not_installed(tiny_model, caplog):
    assert load_backend(str(tiny_model), ModelSettings("auto")).describe()["name"] == "hf"
    assert "because vllm is not installed" in caplog.text
