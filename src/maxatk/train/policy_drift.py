"""How far the policy has moved from the one that sampled, logged once an optimizer step."""

from __future__ import annotations

import numpy as np

from maxatk.train.clock import Metrics
from maxatk.training import ratio_values


class PolicyDrift:
    """Collects the log ratios of the micro-batches of an optimizer step, and logs them together.

    `clamp` is the objective's `delta_clamp`. A mean over micro-batches would hide the largest.
    """

    def __init__(self, clamp: float | None) -> None:
        self._clamp = clamp
        self._k: int | None = None
        self._log_ratios: list[np.ndarray] = []

    def add(
        self, log_ratios: np.ndarray, *, masked: np.ndarray | None = None, k: int | None = None
    ) -> None:
        """Take log ratios in nats: (P, n) of whole groups with their `k`, else (rows,).

        Of samples that are `masked` no token is in the loss, so that they have no ratio.
        """
        if masked is not None:
            log_ratios = np.where(masked, np.nan, log_ratios)
        self._log_ratios.append(log_ratios)
        self._k = k

    def log(self, metrics: Metrics) -> None:
        """Append the values of all that was added since the last call, if anything was."""
        if not self._log_ratios:
            return
        log_ratios = np.concatenate(self._log_ratios)
        self._log_ratios = []
        for name, value in ratio_values(log_ratios, clamp=self._clamp, k=self._k).items():
            metrics[name].append(value)

    def forget(self) -> None:
        """Drop what was added, as another training begins."""
        self._log_ratios = []
