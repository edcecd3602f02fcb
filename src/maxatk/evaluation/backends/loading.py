"""Load a causal language model of transformers with its tokenizer and adapter."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from maxatk.errors import InvalidValueError, MissingDependencyError, MissingFileError
from maxatk.evaluation.backends.model_settings import ModelSettings
from maxatk.models import load_tokenizer, no_progress_bar

_log = logging.getLogger(__name__)

_LARGE = 32_000_000  # weights from which bfloat16 is faster on CPUs with instructions for it
_BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # of x86 and ARM in /proc/cpuinfo


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model ready for inference; `stored_dtype` is that of its files."""

    model: Any
    tokenizer: Any
    stored_dtype: str


def load_model(name: str, settings: ModelSettings) -> Loaded:
    """Return a model with its tokenizer.

    Raises MissingFileError where it cannot be loaded, InvalidValueError for an adapter of another
    model and for a device beside a device map, MissingDependencyError without peft for an adapter.
    """
    if settings.device_map is not None and settings.device is not None:
        raise InvalidValueError(
            f"device: a device map decides it, got {settings.device!r} beside "
            f"device_map={settings.device_map!r}"
        )
    try:
        with no_progress_bar():
            tokenizer = load_tokenizer(name, revision=settings.revision, prompt=settings.prompt)
            model = AutoModelForCausalLM.from_pretrained(
                name,
                dtype=settings.dtype,
                revision=settings.revision or "main",
                attn_implementation=settings.attn_implementation,
                device_map=settings.device_map,
            )
    except OSError as error:
        raise MissingFileError(f"model {name!r}: cannot be loaded: {error}") from error
    stored = str(model.dtype).removeprefix("torch.")
    if settings.adapter is not None:
        model = _merged(model, settings.adapter)
    if settings.device_map is None:
        device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        model.to(torch.device(device))
    if settings.dtype == "auto" and stored == "float32" and _faster_in_bfloat16(model):
        _log.warning(
            "%s: computed in bfloat16, which this CPU is faster in, and not in the float32 of its "
            "files; dtype float32 keeps that",
            name,
        )
        model.to(torch.bfloat16)
    return Loaded(model.eval(), tokenizer, stored)


def _merged(model: Any, adapter: str) -> Any:
    folder = Path(adapter)
    if not (folder / "adapter_config.json").is_file():
        raise MissingFileError(f"adapter: the folder {adapter!r} holds no adapter_config.json")
    try:
        from peft import PeftModel, get_peft_model_state_dict
    except ImportError as error:
        raise MissingDependencyError("an adapter needs peft: pip install 'maxatk[peft]'") from error
    try:
        adapted = PeftModel.from_pretrained(model, adapter)
    except (RuntimeError, ValueError, KeyError) as error:
        raise _not_its_adapter(adapter, str(error)) from error
    # Weights for layers that the model does not have are passed over in silence.
    stray = _stored_names(folder) - set(get_peft_model_state_dict(adapted))
    if stray:
        raise _not_its_adapter(adapter, f"no place for {min(stray)!r}")
    return adapted.merge_and_unload()


def _stored_names(folder: Path) -> set[str]:
    path = folder / "adapter_model.safetensors"
    if not path.is_file():
        return set()
    with safe_open(path, framework="pt") as file:
        return set(file.keys())


def _not_its_adapter(adapter: str, reason: str) -> InvalidValueError:
    first = reason.strip().splitlines()[0]
    return InvalidValueError(f"adapter: {adapter!r} is not of this model: {first}")


def _faster_in_bfloat16(model: Any) -> bool:
    if model.device.type != "cpu" or model.num_parameters() < _LARGE:
        return False
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return any(flag in line.split() for flag in _BFLOAT16_FLAGS)
    return False
