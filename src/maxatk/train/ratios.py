"""The importance ratios of the sequences of a batch, over the tokens that the policy wrote."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from trl import GRPOTrainer

# Keys that this package adds to TRL's batches; both survive TRL's shuffling and splitting.
GROUP_ROW = "maxatk_group_row"  # place of a sample in the rollout batch of all processes
BEHAVIOUR_LOGPS = "maxatk_behaviour_logps"  # what ratios are taken to, where it is not TRL's old

_OF_TOKENS = ("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size")


def trained_tokens(batch: dict[str, Any]) -> torch.Tensor:
    """Return where a completion holds tokens of the policy, bool (rows, tokens).

    Not padding, and not what a tool or an environment said (TRL's `tool_mask`): TRL's loss leaves
    both out, and the policy gave neither a probability.
    """
    mask = batch["completion_mask"]
    said = batch.get("tool_mask")
    return (mask if said is None else mask * said).bool()


def behaviour_logps(batch: dict[str, Any]) -> torch.Tensor | None:
    """Return the log-probabilities that ratios are taken to; None where every step is on-policy."""
    return batch.get(BEHAVIOUR_LOGPS, batch.get("old_per_token_logps"))


def sampler_logps(batch: dict[str, Any]) -> torch.Tensor:
    """Return the log-probabilities that vLLM sampled with, (rows, tokens).

    A token for which vLLM has none (NaN) gets the trainer's, so that its ratio at sampling is one:
    TRL's rule for its own ratio.
    """
    found, old = batch["sampling_per_token_logps"], batch["old_per_token_logps"]
    return torch.where(found.isnan(), old, found)


def log_ratios(batch: dict[str, Any], now: torch.Tensor) -> torch.Tensor:
    """Return log pi_theta(y) - log pi_behaviour(y) of every sequence in nats, (rows,).

    `now` are the log-probabilities of the tokens under today's policy, (rows, tokens).
    """
    behaviour = behaviour_logps(batch)
    if behaviour is None:
        return torch.zeros(len(now), device=now.device)
    return torch.where(trained_tokens(batch), now - behaviour, 0.0).sum(dim=1)


def ratios_of_the_rest(
    batch: dict[str, Any], now: torch.Tensor, *, clamp: float | None
) -> torch.Tensor:
    """Return for every token the ratio of the other tokens of its sequence, (rows, tokens).

    The loss multiplies a token's advantage by the ratio of that token, and the product of both is
    the sequence's ratio, which eq. (10) asks for. The other tokens' is within 1 - `clamp` and
    1 + `clamp`, as the ratios of the other samples are; None leaves it as it is. Ratios are to
    TRL's old log-probabilities, as in its loss; all are one where there are none.
    """
    old = batch.get("old_per_token_logps")
    if old is None:
        return torch.ones_like(now)
    of_tokens = torch.where(trained_tokens(batch), now - old, 0.0)
    rest = torch.exp(of_tokens.sum(dim=1, keepdim=True) - of_tokens)
    return rest if clamp is None else rest.clamp(1 - clamp, 1 + clamp)


def model_inputs(batch: dict[str, Any]) -> dict[str, Any]:
    """Return what a forward pass over a batch needs besides token ids: images and the like.

    TRL's loss passes it on by the names of its own parameters, from the batch.
    """
    forward = GRPOTrainer._get_per_token_logps_and_entropies
    names = inspect.signature(forward).parameters
    return {n: batch[n] for n in names if n not in _OF_TOKENS and batch.get(n) is not None}
