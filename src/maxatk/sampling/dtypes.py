"""In which type of numbers a model computes, where `dtype: auto` leaves that to us."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import torch

from maxatk.sampling.memory import free_bytes

_log = logging.getLogger(__name__)

_LARGE = 32_000_000  # weights from which bfloat16 is faster where there are instructions for it
_AMPERE = (8, 0)  # the first GPUs with them
_CPU_FLAGS = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "fphp"},
}
"""The instructions of x86 and ARM for a type of 16 bits, as /proc/cpuinfo names them."""


def faster_dtype(name: str, *, stored: str, weights: int, device: str) -> str:
    """Return the type that a model is computed in on a device, and log one that is not its files'.

    Larger models of float32 files, as TRL writes them, are faster in bfloat16 where there are
    instructions for it. Models of 16 bits are slower than float32 on a CPU that has none for their
    type: with AVX2 alone PyTorch computes number by number.

    Args:
        name: What the model is called in the log.
        stored: The type of its files.
        weights: How many weights it has.
        device: "cpu", "cuda" or another kind of device of torch.
    """
    if stored == "float32" and weights >= _LARGE and _has_bfloat16(device):
        dtype = "bfloat16"
    elif device == "cpu" and is_slow_on_this_cpu(stored) and _fits_as_float32(weights):
        dtype = "float32"
    else:
        return stored
    _log.warning(
        "%s: computed in %s, which this %s is faster in, and not in the %s of its files; dtype %s "
        "keeps that",
        name,
        dtype,
        "GPU" if device == "cuda" else "CPU",
        stored,
        stored,
    )
    return dtype


def is_slow_on_this_cpu(dtype: str) -> bool:
    """Say whether a type has 16 bits and this CPU is known to have no instructions for it."""
    needed = _CPU_FLAGS.get(dtype)
    flags = _flags_of_cpu()
    return needed is not None and bool(flags) and not flags & needed


def _has_bfloat16(device: str) -> bool:
    if device == "cuda":
        return tuple(torch.cuda.get_device_capability()) >= _AMPERE
    return device == "cpu" and bool(_flags_of_cpu() & _CPU_FLAGS["bfloat16"])


def _fits_as_float32(weights: int) -> bool:
    """Say whether float32 weights leave half of the free memory to what is computed with them."""
    return 4 * weights <= free_bytes(torch.device("cpu")) // 2


def _flags_of_cpu() -> set[str]:
    """Return the instructions of the CPU; an empty set where the system does not tell them."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.split())
    return set()
