"""How a model is to be loaded, tried on its config without its weights."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import AutoConfig, PretrainedConfig
from transformers.utils import logging

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.models import quiet_libraries
from maxatk.sampling.dtypes import is_slow_on_this_cpu
from maxatk.train.adapter_checks import architecture_of, check_adapter
from maxatk.train.launch import shards_weights

_DTYPES = ("auto", "bfloat16", "float16", "float32")  # that TRL takes
_PLACES = ("dtype", "device_map")  # of the weights, of which there are none
# What reaches for weights, kernels or other processes.
_NOT_TRIED = (
    "quantization_config",
    "gguf_file",
    "distributed_config",
    "device_mesh",
    "tp_plan",
    "tp_size",
    "use_kernels",
    "kernel_config",
    "allow_all_kernels",
)

# The settings of a training by which `config_to_train` answers otherwise for an equal model.
LOADING_SETTINGS = (
    "model_init_kwargs",
    "trust_remote_code",
    "sync_ref_model",
    "fsdp",
    "deepspeed",
)


def config_to_train(config: Any, name: str, adapter: Any) -> PretrainedConfig:
    """Return the config of the model of that name, as settings of TRL and an adapter change it.

    Both are tried on it, so that nobody waits for weights or samples in vain. Raises OSError where
    there is no config, InvalidValueError, and MissingDependencyError for an attention whose package
    is not installed.
    """
    options = dict(config.model_init_kwargs or {})
    options.setdefault("trust_remote_code", config.trust_remote_code)
    loading_options = {key: options.get(key) for key in ("revision", "trust_remote_code")}
    model = AutoConfig.from_pretrained(name, **loading_options)
    if config.model_init_kwargs:
        _check_options(config, options, name, model)
    check_adapter(adapter, model)
    is_synced = getattr(config, "sync_ref_model", False)
    allowed = "False with an adapter, without which the model is the reference"
    require(adapter is None or not is_synced, "sync_ref_model", allowed, is_synced)
    return model


def _check_options(
    config: Any, options: Mapping[str, Any], name: str, model: PretrainedConfig
) -> None:
    """Refuse `model_init_kwargs` by which a model cannot be loaded, or that are not read."""
    dtype = options.get("dtype")
    is_known = dtype is None or isinstance(dtype, torch.dtype) or dtype in _DTYPES
    require(is_known, "model_init_kwargs.dtype", f"one of {', '.join(_DTYPES)}", dtype)
    if "torch_dtype" in options:
        raise InvalidValueError(
            "model_init_kwargs.torch_dtype: is not read by TRL, which has the name `dtype` for it"
        )
    _warn_of_slow_dtype(config, model.dtype if dtype == "auto" else dtype)
    architecture = architecture_of(model)
    is_quantized = getattr(model, "quantization_config", None) is not None
    if architecture is None or is_quantized or shards_weights(config):
        return
    left_out = {*_PLACES, *_NOT_TRIED}
    if "/" in str(options.get("attn_implementation")):  # a kernel of the hub
        left_out.add("attn_implementation")
    tried = {key: value for key, value in options.items() if key not in left_out}
    try:
        with _silence():
            model_config, unused = AutoConfig.from_pretrained(
                name, return_unused_kwargs=True, **tried
            )
            unused.pop("trust_remote_code", None)
            architecture.from_pretrained(
                None, config=model_config, state_dict={}, device_map="meta", **unused
            )
    except ImportError as error:
        raise MissingDependencyError(f"model_init_kwargs: {error}") from error
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"model_init_kwargs: {error}") from error


def _warn_of_slow_dtype(config: Any, dtype: torch.dtype | str | None) -> None:
    name = str(dtype).removeprefix("torch.")
    on_cpu = config.use_cpu or not torch.cuda.is_available()
    if on_cpu and is_slow_on_this_cpu(name):
        warnings.warn(
            f"model_init_kwargs.dtype: this CPU has no instructions for {name}, so that a training "
            "takes longer than in float32",
            stacklevel=2,
        )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep transformers from saying that the model has no weights."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        with quiet_libraries():
            yield
    finally:
        logging.set_verbosity(verbosity)
