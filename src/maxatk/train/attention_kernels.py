"""The attention kernels of PyTorch with which a training takes its steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.backends import cuda


@contextlib.contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Leave out cuDNN's attention, whose gradient may be NaN where a row begins with padding.

    On Hopper PyTorch prefers it for `attn_implementation: sdpa`, and TRL pads prompts on the left.
    With torch 2.11 on an H200 it gave a quarter of the padded batches in bfloat16 a gradient of
    NaN, and the kernels that are left gave none: `bench/attention_gradients.py` counts them.
    """
    was_enabled = cuda.cudnn_sdp_enabled()
    cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        cuda.enable_cudnn_sdp(was_enabled)
