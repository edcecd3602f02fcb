"""Training a low-rank adapter instead of the whole model, with the package peft."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.errors import InvalidValueError, MissingDependencyError, suggestion

ADAPTER = "adapter"
"""The folder of the adapter inside the folder of the trained model."""


def lora_config(settings: Mapping[str, Any] | None) -> Any:
    """Return the `peft.LoraConfig` of a recipe's section `peft`, or None without one.

    The task is a causal language model unless `task_type` says otherwise.

    Raises MissingDependencyError without the package peft, InvalidValueError for an unknown key
    or a value that peft refuses.
    """
    if settings is None:
        return None
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise MissingDependencyError(
            "peft: adapters need the package peft: pip install 'maxatk[peft]'"
        ) from error
    fields = [field.name for field in dataclasses.fields(LoraConfig) if field.init]
    for name in settings:
        if name not in fields:
            raise InvalidValueError(
                f"peft: unknown key {name!r}{suggestion(str(name), fields)}; "
                f"allowed: {', '.join(sorted(fields))}"
            )
    try:
        return LoraConfig(**{"task_type": "CAUSAL_LM", **settings})
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"peft: {error}") from error


def merge_adapter(folder: Path, out: Path, *, dtype: Any) -> None:
    """Write the model that the adapter in `folder` belongs to, with the adapter in it, to `out`.

    The model is loaded once more, on the CPU and in `dtype`, so that merging needs neither the
    accelerator nor the shards of the run.
    """
    from peft import AutoPeftModelForCausalLM

    model = AutoPeftModelForCausalLM.from_pretrained(folder, dtype=dtype)
    model.merge_and_unload().save_pretrained(out)
