"""What is trained for at a moment of training: a method, its k of that moment, and a mixture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from maxatk.objectives import Form, Method, advantages, as_method


def _cosine(progress: float) -> float:
    return (1 - math.cos(math.pi * progress)) / 2


def _there_and_back(progress: float) -> float:
    return 1 - abs(1 - 2 * progress)


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 0.0,  # noqa: ARG005
    "linear": lambda progress: progress,
    "cosine": _cosine,
    "linear_back": _there_and_back,
    "cosine_back": lambda progress: _cosine(_there_and_back(progress)),
}
"""Name -> how much of the way from `k` to `k_final` is done, of the share of training done."""


@dataclasses.dataclass(frozen=True)
class Beside:
    """What a method looks at beside the rewards, in their shape: scores that select, answers."""

    selection: np.ndarray | None = None
    answers: np.ndarray | None = None

    def at(self, rows: np.ndarray | slice, shape: tuple[int, ...]) -> Beside:
        """Return the values at some places of the flat ones, in a shape."""
        flat = (None if x is None else x.reshape(-1)[rows] for x in (self.selection, self.answers))
        return Beside(*(None if x is None else x.reshape(shape) for x in flat))


@dataclasses.dataclass(frozen=True)
class Objective:
    """weight * max@k + (1 - weight) * max@1, where k moves to `k_final`, or there and back.

    Both terms go through the same method. `clamp` bounds |rho - 1|; None does not.
    """

    method: str | Method
    k: int
    k_final: int
    schedule: str
    weight: float
    form: Form
    clamp: float | None

    def k_at(self, progress: float) -> int:
        """Return the k after a share of the training, 0 to 1, rounded half up."""
        share = SCHEDULES[self.schedule](min(max(progress, 0.0), 1.0))
        return math.floor(self.k + (self.k_final - self.k) * share + 0.5)

    def advantages(
        self,
        rewards: np.ndarray,
        k: int,
        *,
        log_ratios: np.ndarray | None,
        beside: Beside = Beside(),
    ) -> np.ndarray:
        """Return the advantages (P, n) of rewards (P, n); a group smaller than k counts as k = n.

        `log_ratios` (P, n) and what is `beside` are those of `maxatk.advantages`, which does the
        work and raises its errors.
        """

        def of(k: int) -> np.ndarray:
            return advantages(
                rewards,
                self.method,
                k,
                log_ratios=log_ratios,
                selection=beside.selection,
                answers=beside.answers,
                form=self.form,
                clamp=self.clamp,
            )

        # Evaluation groups may be smaller than k.
        result = of(min(k, as_method(self.method).largest_k(rewards.shape[1])))
        if self.weight == 1.0:
            return result
        mixed: np.ndarray = self.weight * result + (1 - self.weight) * of(1)
        return mixed
