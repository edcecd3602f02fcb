"""Count gradients that are NaN for rows padded on the left, with each attention kernel of a GPU.

The batches are those of a model with 9 heads of 64, in bfloat16, as long as prompts are, with 0 to
90 positions of padding before them. The kernel "default" is what PyTorch chooses itself.

    python bench/attention_gradients.py
"""

import collections
import contextlib
import itertools
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

KERNELS = {
    "default": None,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
LENGTHS = (97, 160, 243, 320)
PADDINGS = (0, 3, 40, 64, 90)
ROWS = (1, 4)
HEADS = 9
HEAD_SIZE = 64


def is_finite(kernel, *, rows, length, padding):
    """Return whether the gradients of queries, keys and values are, or None if it is refused."""
    shape = (rows, HEADS, length, HEAD_SIZE)
    leaves = [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in ("queries", "keys", "values")
    ]
    is_real = torch.arange(length, device="cuda") >= padding
    causal = torch.ones(length, length, device="cuda", dtype=torch.bool).tril()
    mask = (causal & is_real).expand(rows, 1, length, length)
    chosen = contextlib.nullcontext() if kernel is None else sdpa_kernel(kernel)
    try:
        with chosen:
            output = scaled_dot_product_attention(*leaves, attn_mask=mask)
    except RuntimeError:  # no kernel of this kind takes the batch
        return None
    # As in a training, what comes out at the padding has no part in the loss.
    output[:, :, padding:].float().square().sum().backward()
    return all(bool(leaf.grad.isfinite().all()) for leaf in leaves)


def main():
    if not torch.cuda.is_available():
        print("attention_gradients: needs a GPU of NVIDIA, so nothing was measured")
        return
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")  # why a kernel is refused
    print(torch.__version__, torch.cuda.get_device_name())
    for name, kernel in KERNELS.items():
        for padding in PADDINGS:
            counts = collections.Counter(
                is_finite(kernel, rows=rows, length=length, padding=padding)
                for length, rows in itertools.product(LENGTHS, ROWS)
            )
            print(
                f"{name}, {padding} of padding: {counts[False]} NaN, {counts[True]} finite, "
                f"{counts[None]} refused"
            )


if __name__ == "__main__":
    main()
