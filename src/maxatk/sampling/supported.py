"""Which models the decoder computes as they compute themselves: asked of the config, and tried."""

from __future__ import annotations

from typing import Any

import torch

from maxatk.sampling.decoder import Decoder

_OTHER_ATTENTION = ("sliding_window", "attn_logit_softcapping", "attention_chunk_size")
_MOST_APART = 0.05  # total variation of two next-token distributions that differ by rounding


def supports(model: Any) -> bool:
    """Return whether `Decoder` computes what the model does, by its config and by trying it."""
    backend = getattr(model, "_supports_attention_backend", False)
    return backend and is_plain(model.config) and _agrees(model)


def is_plain(model: Any) -> bool:
    """Return whether a model's config has full attention in every layer, at fixed positions."""
    config = model.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        kinds == {"full_attention"}
        and rope.get("rope_type", "default") not in ("dynamic", "longrope")
        and not any(getattr(config, name, None) for name in _OTHER_ATTENTION)
    )


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _agrees(model: Any) -> bool:
    """Return whether six tokens, four of them as a prompt, end in the model's own distribution."""
    size = model.get_input_embeddings().num_embeddings
    ids = [(7 * number + 5) % size for number in range(6)]
    output = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False)
    expected = torch.softmax(output.logits[0, -1].float(), -1)
    for shared in (True, False):
        decoder = Decoder(model, rows=Decoder.fewest, shared=shared)
        try:
            decoder.admit([1], decoder.evaluate([ids[:4]]))
            for token in ids[4:]:
                tokens = torch.full((Decoder.fewest,), token, device=model.device)
                logits = decoder.step(tokens)
        except torch.OutOfMemoryError:
            raise
        except (TypeError, AttributeError, ValueError, RuntimeError):
            return False  # its attention is not what the interface of transformers promises
        computed = torch.softmax(logits[1].float(), -1)
        if not float((computed - expected).abs().sum()) / 2 < _MOST_APART:  # so is NaN
            return False
    return True
