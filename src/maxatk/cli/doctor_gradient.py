"""The gradient of padded rows, as a training takes it: `maxatk doctor --engines`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

from maxatk.cli.doctor_engines import TriedEngine, tried

_LENGTHS = (320, 243, 160, 97)  # tokens of rows that are padded to the longest
_TOKENS = 64  # of the vocabulary
_PADDING = -1  # no token
_LEAST_COSINE = 0.95  # between this gradient and that of the rows alone in float32


def try_gradient() -> Iterator[TriedEngine]:
    """Yield, where TRL is installed, whether the gradient of a training is right on this machine.

    Some kernels of attention have a gradient of NaN for rows that begin with padding, as TRL's do.
    """
    if importlib.util.find_spec("trl") is None:
        return
    yield tried("training", _try_padded_rows)


def _try_padded_rows() -> tuple[bool, str]:
    import torch
    from torch.nn.utils.rnn import pad_sequence
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
    padded = pad_sequence(rows, batch_first=True, padding_value=_PADDING, padding_side="left")
    with without_cudnn_attention():
        gradient = _gradient(model.to(device, dtype), [padded], device=device)
    if not bool(gradient.isfinite().all()):
        return False, f"the gradient of padded rows is NaN or infinite; {where}"
    cosine = float(torch.cosine_similarity(gradient, expected, dim=0))
    return cosine >= _LEAST_COSINE, (
        f"the gradient of padded rows has a cosine of {cosine:.4f} with that of the rows alone; "
        f"{where}"
    )


def _gradient(model: Any, batches: Sequence[Any], *, device: Any) -> Any:
    """Return the gradient of the summed loss over batches of rows, which may be padded."""
    import torch

    for batch in batches:
        ids = batch.to(device)
        is_real = ids != _PADDING
        output = model(input_ids=ids.clamp(min=0), attention_mask=is_real.long())
        # Of tokens after real ones alone.
        scores = output.logits[:, :-1].float().log_softmax(-1)
        chosen = scores.gather(2, ids[:, 1:, None].clamp(min=0)).squeeze(2)
        (-chosen * is_real[:, :-1]).sum().backward()
    gradients = [weight.grad.flatten().double().cpu() for weight in model.parameters()]
    return torch.cat(gradients)
