"""Weights of earlier optimizer steps, to sample with: rollouts that lag behind the training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from maxatk.errors import InvalidValueError
from maxatk.train import buffer

FILE = "lag.pt"
"""The file of a checkpoint that holds the weights of earlier steps."""


class LaggedWeights(TrainerCallback):
    """The trained weights of `model` at the steps that coming rollout batches are sampled with.

    A rollout batch after t optimizer steps is sampled with the weights after max(t - lag, 0).
    Rollout batches come every `every` steps, so that at most ceil(lag / every) copies are held, on
    the device of the model. As a callback it copies the weights just before a step changes them.
    """

    def __init__(self, model: torch.nn.Module, *, lag: int, every: int) -> None:
        self._model, self._lag, self._every = model, lag, every
        self._kept: dict[int, dict[str, torch.Tensor]] = {}  # step -> name -> weight

    def sampling_step(self, step: int) -> int:
        """Return the optimizer step whose weights sample the rollout batch at `step`."""
        return max(step - self._lag, 0)

    @contextlib.contextmanager
    def in_model(self, step: int) -> Iterator[None]:
        """Put the weights that sample the rollout batch at `step` into the model for a while."""
        wanted = self.sampling_step(step)
        if wanted == step:
            yield
            return
        self._exchange(self._kept[wanted])
        try:
            yield
        finally:
            self._exchange(self._kept[wanted])

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Forget the weights of an earlier training of the same trainer."""
        if state.global_step == 0:
            self._kept.clear()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Forget the weights that no rollout batch needs any more, and copy those that one will."""
        step = state.global_step
        coming = (step // self._every + 1) * self._every  # the next step with a rollout batch
        oldest = self.sampling_step(coming)
        self._kept = {kept: weights for kept, weights in self._kept.items() if kept >= oldest}
        if self._will_serve(step):
            self._kept[step] = {name: w.detach().clone() for name, w in self._trained()}

    def save(self, folder: Path) -> None:
        """Write the weights that coming rollout batches need to a checkpoint's folder."""
        buffer.save_state(folder / FILE, {"lag": self._lag, "kept": self._kept})

    def load(self, folder: Path, device: torch.device) -> None:
        """Take over what `save` wrote; raise InvalidValueError where it does not fit the lag."""
        found = buffer.load_state(folder / FILE, device) or {"lag": 0}
        if found["lag"] != self._lag:
            raise InvalidValueError(
                f"rollout_lag: {self._lag} cannot resume from {folder}, which was written with "
                f"{found['lag']} and lacks the weights to sample with; allowed: {found['lag']}"
            )
        self._kept = found["kept"]

    def _will_serve(self, step: int) -> bool:
        """Say whether a later rollout batch is sampled with the weights of `step`."""
        first = step == 0 and self._lag >= self._every  # rollout batches before the lag has passed
        return first or (step + self._lag) % self._every == 0

    def _exchange(self, weights: dict[str, torch.Tensor]) -> None:
        """Swap the storage of the model's weights with `weights`: no copy, and its own inverse."""
        for name, parameter in self._trained():
            parameter.data, weights[name] = weights[name], parameter.data

    def _trained(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        return ((n, p) for n, p in self._model.named_parameters() if p.requires_grad)


def copies(*, lag: int, every: int) -> int:
    """Return how many copies of the trained weights a lag holds at most."""
    return -(-lag // every)
