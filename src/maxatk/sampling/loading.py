"""Load a causal language model of transformers with its tokenizer and adapter."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from maxatk.check import needing, require
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.models import load_tokenizer, quiet_libraries
from maxatk.sampling.dtypes import faster_dtype, is_slow_on_this_cpu
from maxatk.sampling.settings import ModelSettings

_log = logging.getLogger(__name__)


def load_model(name: str, settings: ModelSettings) -> tuple[Any, Any, str]:
    """Return a model ready for inference, its tokenizer, and the type of numbers of its files.

    Raises MissingFileError where it cannot be loaded, InvalidValueError for an adapter of another
    model, for a device beside a device map and for one that is not here, MissingDependencyError
    without peft for an adapter.
    """
    alone = settings.device_map is None or settings.device is None
    require(alone, "device", f"None beside the device map {settings.device_map!r}", settings.device)
    device = None if settings.device_map is not None else _device(settings.device)
    with quiet_libraries(), found_or_missing(name):
        tokenizer = load_tokenizer(name, revision=settings.revision, prompt=settings.prompt)
        model = AutoModelForCausalLM.from_pretrained(
            name,
            dtype=settings.dtype,
            revision=settings.revision or "main",
            attn_implementation=settings.attn_implementation,
            device_map=settings.device_map,
        )
    stored = str(model.dtype).removeprefix("torch.")
    if settings.adapter is not None:
        model = _merged(model, settings.adapter)
    kind = (device or model.device).type
    is_quantized = getattr(model, "hf_quantizer", None) is not None
    if settings.dtype == "auto" and not is_quantized:
        dtype = faster_dtype(name, stored=stored, weights=model.num_parameters(), device=kind)
        if dtype != stored:
            model.to(getattr(torch, dtype))
    elif kind == "cpu" and is_slow_on_this_cpu(settings.dtype):
        _log.warning(
            "dtype %s: this CPU has no instructions for it and computes faster in float32",
            settings.dtype,
        )
    if device is not None:
        model.to(device)
    return model.eval(), tokenizer, stored


def _device(name: str | None) -> torch.device:
    """Return a device by its name, by default a GPU if there is one; raises InvalidValueError."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch's, without such a device or its driver
        reason = str(error).partition("\n")[0]
        raise InvalidValueError(f"device: {name!r} cannot be used here: {reason}") from error
    return device


@contextlib.contextmanager
def found_or_missing(model: str) -> Iterator[None]:
    """Raise MissingFileError for a model whose files transformers does not find or cannot read."""
    try:
        yield
    except OSError as error:
        raise MissingFileError(f"model {model!r}: cannot be loaded: {error}") from error


def check_adapter(adapter: str, model: Any) -> None:
    """Raise InvalidValueError naming a weight of an adapter that is not of this model.

    PEFT and vLLM pass over weights that have no place. Raises MissingFileError without an adapter.
    """
    folder = Path(adapter)
    if not (folder / "adapter_config.json").is_file():
        raise MissingFileError(f"adapter: the folder {adapter!r} holds no adapter_config.json")
    weights = folder / "adapter_model.safetensors"
    if not weights.is_file():
        return
    with safe_open(weights, framework="pt") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    modules = dict(model.named_modules())
    for name, shape in shapes.items():
        # base_model.model.<module>.lora_A.weight, or <module>.weight of one that is trained whole.
        path, is_low_rank, part = name.removeprefix("base_model.model.").partition(".lora_")
        module = modules.get(path if is_low_rank else path.rpartition(".")[0])
        if module is None:
            raise _not_its_adapter(adapter, f"no place for {name!r}")
        size = {"A.weight": shape[-1], "B.weight": shape[0]}.get(part)
        if size is not None and size not in module.weight.shape:
            beside = list(module.weight.shape)
            raise _not_its_adapter(adapter, f"{name!r} is {shape} beside {beside}")


def _merged(model: Any, adapter: str) -> Any:
    check_adapter(adapter, model)
    with needing("an adapter needs peft: pip install 'maxatk[peft]'"):
        from peft import PeftModel
    try:
        return PeftModel.from_pretrained(model, adapter).merge_and_unload()
    except (RuntimeError, ValueError, KeyError) as error:
        raise _not_its_adapter(adapter, str(error)) from error


def _not_its_adapter(adapter: str, reason: str) -> InvalidValueError:
    first = reason.strip().splitlines()[0]
    return InvalidValueError(f"adapter: {adapter!r} is not of this model: {first}")


def reason_of(error: Exception) -> str:
    """Return why an engine did not start, in one line, without pydantic's advice."""
    return " ".join(str(error).partition(" [type=")[0].split()) or type(error).__name__
