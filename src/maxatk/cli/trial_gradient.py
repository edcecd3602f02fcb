"""The gradient of padded rows, as a training takes it: `maxatk doctor --engines`."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Sequence
from typing import Any

from maxatk.cli.trial import TriedEngine

_LENGTHS = (320, 243, 160, 97)  # tokens of rows that are padded to the longest
_TOKENS = 64  # of the vocabulary
_LEAST_COSINE = 0.95  # between this gradient and that of the rows alone in float32


def try_gradient() -> Iterator[TriedEngine]:
    """Yield, where TRL is installed, whether the gradient of a training is right on this machine.

    Some kernels of attention have a gradient of NaN for rows that begin with padding, as TRL's do.
    """
    if importlib.util.find_spec("trl") is None:
        return
    started = time.monotonic()
    try:
        holds, reason = _tried()
    except Exception as error:  # whatever a GPU and its packages raise is the answer
        lines = str(error).strip().splitlines() or [""]
        holds = False
        reason = f"{type(error).__name__}: {lines[0]}"
    yield TriedEngine("training", holds, f"{reason} ({time.monotonic() - started:.0f} s)")


def _tried() -> tuple[bool, str]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from maxatk.train.attention_kernels import without_cudnn_attention

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    dtype = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float32
    card = torch.cuda.get_device_name() if on_gpu else "cpu"
    where = f"{str(dtype).removeprefix('torch.')} on {card}"
    # Heads of the size of small models: which kernel PyTorch takes depends on it.
    shape = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 256}
    config = LlamaConfig(vocab_size=_TOKENS, num_hidden_layers=2, **shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = LlamaForCausalLM(config)
        rows = [torch.randint(_TOKENS, (length,)) for length in _LENGTHS]
    model.set_attn_implementation("eager")
    expected = _gradient(model, [row[None] for row in rows], device="cpu")
    model.zero_grad()
    model.set_attn_implementation("sdpa")
    with without_cudnn_attention():
        gradient = _gradient(model.to(device, dtype), [_padded(rows)], device=device)
    if not bool(gradient.isfinite().all()):
        return False, f"the gradient of padded rows is NaN or infinite; {where}"
    cosine = float(torch.cosine_similarity(gradient, expected, dim=0))
    return cosine >= _LEAST_COSINE, (
        f"the gradient of padded rows has a cosine of {cosine:.4f} with that of the rows alone; "
        f"{where}"
    )


def _padded(rows: Sequence[Any]) -> Any:
    """Return rows padded on the left with -1."""
    import torch
    from torch.nn.functional import pad

    longest = max(map(len, rows))
    return torch.stack([pad(row, (longest - len(row), 0), value=-1) for row in rows])


def _gradient(model: Any, batches: Sequence[Any], *, device: Any) -> Any:
    """Return the gradient of the summed loss over batches of rows, whose padding is -1."""
    import torch

    for batch in batches:
        ids = batch.to(device)
        is_real = ids >= 0
        output = model(input_ids=ids.clamp(min=0), attention_mask=is_real.long())
        # Of tokens after real ones alone.
        scores = output.logits[:, :-1].float().log_softmax(-1)
        chosen = scores.gather(2, ids[:, 1:, None].clamp(min=0)).squeeze(2)
        (-chosen * is_real[:, :-1]).sum().backward()
    gradients = [weight.grad.flatten().double().cpu() for weight in model.parameters()]
    return torch.cat(gradients)
