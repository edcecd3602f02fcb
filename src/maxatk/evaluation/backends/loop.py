"""The sampling loop over one prompt: tokens, log-probabilities and entropies, row by row."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from maxatk.evaluation.backends.cache import repeat_with_room

# Dropping rows moves others within the cache: it pays once enough of them have ended.
_DROP_BELOW = 0.9


@dataclasses.dataclass(frozen=True)
class Drawn:
    """What `sample_rows` drew for R rows and at most T tokens.

    `tokens` (R, T) is valid up to `lengths` (R,), the end token included; `ended` (R,) tells the
    rows that drew one; `logprobs` and `entropies` (R,) are sums over the sampled tokens, in nats.
    """

    tokens: torch.Tensor
    lengths: torch.Tensor
    ended: torch.Tensor
    logprobs: torch.Tensor
    entropies: torch.Tensor


@torch.inference_mode()  # type: ignore[untyped-decorator]
def sample_rows(
    model: Any,
    prompt: torch.Tensor,
    noise: torch.Tensor,
    *,
    end_tokens: torch.Tensor,
    temperature: float,
    top_p: float,
) -> Drawn:
    """Sample R continuations of one prompt by inverting the cumulative distribution.

    prompt: (1, L) token ids; noise: (R, T) uniform in [0, 1), one number per row and position.
    Row r depends on the prompt and noise[r] alone, whichever rows have ended before it.
    """
    rows, most = noise.shape
    drawn = Drawn(
        tokens=torch.zeros_like(noise, dtype=torch.long),
        lengths=torch.full((rows,), most, device=noise.device),
        ended=torch.zeros(rows, dtype=torch.bool, device=noise.device),
        logprobs=torch.zeros(rows, dtype=torch.float64, device=noise.device),
        entropies=torch.zeros(rows, dtype=torch.float64, device=noise.device),
    )
    output = model(input_ids=prompt, use_cache=True, logits_to_keep=1)
    cache = output.past_key_values
    repeat_with_room(cache, rows)
    logits = output.logits[:, -1].expand(rows, -1)
    batch = torch.arange(rows, device=noise.device)  # the row of each sequence in the batch
    alive = torch.ones(rows, dtype=torch.bool, device=noise.device)  # of each in the batch
    for step in range(most):
        logp = torch.log_softmax(logits.float() / (temperature or 1.0), dim=-1)
        token = _draw(logp, noise[batch, step], temperature=temperature, top_p=top_p)
        _record(drawn, batch, alive, step, token, logp)
        alive &= ~torch.isin(token, end_tokens)
        left = int(alive.sum())
        if left == 0 or step == most - 1:
            break
        if left < _DROP_BELOW * len(batch):
            kept = _without_gaps(alive, left)
            cache.batch_select_indices(kept)
            batch, token, alive = batch[kept], token[kept], alive[kept]
        output = model(input_ids=token[:, None], past_key_values=cache, use_cache=True)
        logits = output.logits[:, -1]
    ends = torch.isin(drawn.tokens.gather(1, drawn.lengths[:, None] - 1).squeeze(1), end_tokens)
    drawn.ended.copy_(ends)
    return drawn


def _without_gaps(alive: torch.Tensor, left: int) -> torch.Tensor:
    # The rows alive, as few of them moved as possible: those at the end fill the gaps.
    rows = torch.arange(left, device=alive.device)
    indices = alive.nonzero().squeeze(-1)
    rows[~alive[:left]] = indices[indices >= left]
    return rows


def _record(
    drawn: Drawn,
    batch: torch.Tensor,
    alive: torch.Tensor,
    step: int,
    token: torch.Tensor,
    logp: torch.Tensor,
) -> None:
    # 0 * -inf of a masked token is NaN, so its term is set to zero.
    entropy = -(logp.exp() * logp).nan_to_num(nan=0.0).sum(-1)
    chosen = logp.gather(1, token[:, None]).squeeze(1)
    rows = batch[alive]
    drawn.tokens[rows, step] = token[alive]
    drawn.lengths[rows] = step + 1
    drawn.logprobs[rows] += chosen[alive].double()
    drawn.entropies[rows] += entropy[alive].double()


def _draw(
    logp: torch.Tensor, noise: torch.Tensor, *, temperature: float, top_p: float
) -> torch.Tensor:
    if temperature == 0:
        return logp.argmax(-1)
    probs = logp.exp()
    if top_p < 1:
        probs = _keep_mass(probs, top_p)
    cumulative = probs.cumsum(-1)
    total = cumulative[:, -1]
    # The target stays below the total: rounded up to it, a token of probability zero after the
    # last possible one would be drawn.
    target = torch.minimum(noise * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target[:, None], right=True).squeeze(1)


def _keep_mass(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    return probs.scatter(1, order, ordered.masked_fill(before >= top_p, 0.0))
