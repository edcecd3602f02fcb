"""Keep a gradient that is NaN or infinite away from the weights."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from accelerate.utils import gather
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback

from maxatk.errors import InvalidValueError

_MOST_IN_A_ROW = 3
# A scaler of fp16 begins at 2**16 and halves its scale at each. Behind so many it is the loss that
# has no finite gradient, and not its scale.
_MOST_WITH_SCALER = 40


class FiniteGradients(TrainerCallback):
    """Leaves out an optimizer step whose gradient is NaN or infinite, with a warning.

    One such step makes every weight NaN, and the training ends in the middle of the next rollout
    batch. A scaler of fp16 leaves them out itself, and expects to see some. Raises
    InvalidValueError at the third of them in a row, with a scaler at the fortieth, before the
    optimizer has it.
    """

    def __init__(self) -> None:
        self._in_a_row = 0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Forget the steps of an earlier training."""
        self._in_a_row = 0

    def on_pre_optimizer_step(
        self, args: Any, state: Any, *_: Any, model: Any = None, optimizer: Any = None, **__: Any
    ) -> None:
        """Take the gradient away where it is not finite: the optimizer then moves no weight."""
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        if _are_finite(gradients, args.device):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        step = state.global_step + 1
        # Of accelerate: there is none on a CPU, nor without fp16.
        has_scaler = getattr(optimizer, "scaler", None) is not None
        most = _MOST_WITH_SCALER if has_scaler else _MOST_IN_A_ROW
        if self._in_a_row == most:
            raise InvalidValueError(
                f"train: the gradient of step {step} and of the {most - 1} before it is NaN or "
                "infinite; the weights are still those of before, and a resume comes to the same "
                "step; try in another folder model_init_kwargs {attn_implementation: eager}, a "
                "smaller learning_rate, or float32 (fp16 and bf16 false), with the last checkpoint "
                "as the model where it should go on from there"
            )
        if has_scaler:
            return
        model.zero_grad(set_to_none=True)
        warnings.warn(
            f"train: the gradient of step {step} is NaN or infinite, so it moves no weight",
            stacklevel=2,
        )


def _are_finite(gradients: list[torch.Tensor], device: torch.device) -> bool:
    """Return whether these gradients are finite here and in all other processes.

    A process may hold a part of each, or none, as with DeepSpeed: one that left out a step alone
    would go on with other weights than the rest.
    """
    parts = [part.to_local() if isinstance(part, DTensor) else part for part in gradients]
    norm = torch.nn.utils.get_total_norm(parts)
    finite = torch.isfinite(norm).to(device, torch.int)
    return bool(gather(finite).all())
