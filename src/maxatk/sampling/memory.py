"""How much memory is free for weights and samples."""

from __future__ import annotations

import os

import torch


def free_bytes(device: torch.device) -> int:
    """Return the bytes that are free on a GPU, or for any other device on this machine."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
