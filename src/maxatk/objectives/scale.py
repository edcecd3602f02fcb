"""The size of the advantages that a loss is given.

Losses divide by samples or tokens. A credit whose sum over the n samples of a group estimates a
gradient (eq. 9 and 10) is n times too small for them: `beta`, clipping and Adam's epsilon would
act on it n times as strongly as on an advantage of order one.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from maxatk.check import is_number
from maxatk.errors import DataError, InvalidValueError
from maxatk.objectives.group import root_sum_of_squares
from maxatk.objectives.methods import Method

SCALES = ("mean", "sum", "batch")
DECAY = 0.99  # what the running mean of squares keeps of itself at a rollout batch
FILE = "advantage_scale.json"  # of a checkpoint, with the running root mean square


def root_mean_square(values: np.ndarray) -> float:
    """Return the root of the mean square of at least one value; no square overflows."""
    return float(root_sum_of_squares(values.ravel())[0]) / math.sqrt(values.size)


class AdvantageScale:
    """The factor between a method's advantages and those that the loss is given.

    - "mean": the size of a group for a credit that is summed over samples; 1 for others.
    - "sum", and a method with a scale of its own: 1.
    - "batch": 1 / the root mean square of the advantages so far, over all samples of the groups
      that had a signal: one number for all groups, a running mean with `DECAY` for the older
      rollout batches. No prompt gets a weight from it, and the unit of the rewards has no effect.
    """

    def __init__(self, name: str, method: Method) -> None:
        self._name = name if method.scale == "none" else "sum"
        self._summed = not method.kind.per_sample
        self._root = self._weight = 0.0  # the weight is what the mean has seen, up to 1

    def observe(self, advantages: np.ndarray) -> None:
        """Take the advantages (P, n) of a rollout batch into the running root mean square."""
        signal = advantages[(advantages != 0).any(axis=1)]
        if self._name == "batch" and signal.size:
            kept, fresh = math.sqrt(DECAY), math.sqrt(1 - DECAY)
            self._root = math.hypot(kept * self._root, fresh * root_mean_square(signal))
            self._weight = DECAY * self._weight + 1 - DECAY

    def factor(self, group_size: int) -> float:
        """Return what the advantages of groups of this size are multiplied by."""
        if self._name == "mean" and self._summed:
            return float(group_size)
        if self._name == "batch" and self._root > 0:
            return math.sqrt(self._weight) / self._root
        return 1.0

    def save(self, folder: Path) -> None:
        """Write the running root mean square to a checkpoint's folder, where there is one."""
        if self._name == "batch":
            from maxatk.folders import write_json  # `import maxatk` needs no files

            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / FILE, {"root_mean_square": self._root, "weight": self._weight})

    def load(self, folder: Path) -> None:
        """Take over what `save` wrote; raise InvalidValueError where it is missing."""
        if self._name != "batch":
            return
        from maxatk.folders import read_json

        if not (folder / FILE).is_file():
            raise InvalidValueError(
                f"advantage_scale: 'batch' cannot resume from {folder}, which was written with "
                f"another scale and lacks {FILE}; allowed: the scale that it was written with"
            )
        found = read_json(folder / FILE)
        values = [found.get(name, -1) for name in ("root_mean_square", "weight")]
        if not all(is_number(value) and 0 <= value < math.inf for value in values):
            raise DataError(f"{folder / FILE}: must hold a root_mean_square and a weight >= 0")
        self._root, self._weight = values
