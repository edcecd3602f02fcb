"""From groups of samples to what a loss and a log get: the one training step of every trainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import as_path, require
from maxatk.objectives.objective import Objective
from maxatk.training.groups import Groups
from maxatk.training.values import group_values, mean_reward


@dataclasses.dataclass(frozen=True)
class Step:
    """What a batch of groups comes to: advantages (P, n) for the loss, and values for the log."""

    advantages: np.ndarray
    metrics: dict[str, float]
    mean_reward: float  # NaN where no sample has a reward


class Learner:
    """Turns batches of groups into advantages for a loss that is a mean over samples.

    It holds what moves during a training: the running scale of the advantages, which `save` and
    `load` keep with a checkpoint.
    """

    def __init__(self, objective: Objective) -> None:
        require(isinstance(objective, Objective), "objective", "an Objective", objective)
        self.objective = objective
        self._scale = objective.scale()

    def step(
        self,
        groups: Groups,
        texts: Sequence[Sequence[Any]],
        *,
        log_ratios: np.ndarray | None = None,
        held_out: bool = False,
    ) -> Step:
        """Return the step on groups that have just been drawn.

        Args:
            groups: Those of the whole batch, of all processes.
            texts: The completions of each group, or what tells them apart, such as their tokens;
                fewer than n where a trainer has lost samples, whose places are the last of the
                group.
            log_ratios: (P, n) in nats, where the sampler is not the policy that is trained.
            held_out: Whether nothing is trained on them: the scale does not move, and groups may be
                smaller than k.

        Raises InvalidValueError for what the objective does not allow in groups of this size, for
        texts that are not those of the groups, and as `maxatk.advantages`.
        """
        if not held_out:
            self.objective.check_group_size(groups.size)
        _check_texts(groups, texts)
        unscaled = groups.advantages(self.objective, held_out=held_out)
        if not held_out:
            # The scale is that of on-policy advantages: ratios would make it follow their noise.
            self._scale.observe(unscaled)
        if log_ratios is not None:
            unscaled = groups.advantages(self.objective, log_ratios=log_ratios, held_out=held_out)
        scaled = self.factor(groups.size) * unscaled
        names = [[_name_of(text) for text in group] for group in texts]
        return Step(scaled, group_values(groups, scaled, names), mean_reward(groups.rewards))

    def advantages(self, groups: Groups, log_ratios: np.ndarray) -> np.ndarray:
        """Return the advantages (P, n) at a later optimizer step on the same samples.

        `log_ratios` (P, n) are those of the policy of that step, in nats. The scale stays that of
        the batch.
        """
        return self.factor(groups.size) * groups.advantages(self.objective, log_ratios=log_ratios)

    def factor(self, group_size: int) -> float:
        """Return what unscaled advantages in groups of this size are multiplied by."""
        return self._scale.factor(group_size)

    def save(self, checkpoint: str | Path) -> None:
        """Write the running scale into the folder of a checkpoint, where there is one."""
        self._scale.save(as_path("checkpoint", checkpoint))

    def load(self, checkpoint: str | Path) -> None:
        """Take over what `save` wrote; raise InvalidValueError where the scale is missing."""
        self._scale.load(as_path("checkpoint", checkpoint))


def _name_of(text: Any) -> str:
    """Return what is equal for equal completions, of which one may be a list or tensor of ids."""
    if isinstance(text, str):
        return text
    ids = text.tolist() if hasattr(text, "tolist") else text
    return str(ids)


def _check_texts(groups: Groups, texts: Sequence[Sequence[Any]]) -> None:
    """Raise InvalidValueError unless there are groups, and 1 to n completions of each."""
    prompts = len(groups.rewards)
    require(prompts > 0, "groups", "one or more", groups.rewards)
    is_list = isinstance(texts, Sized) and len(texts) == prompts
    require(is_list, "texts", f"a list of {prompts} groups", texts)
    for group in texts:
        allowed = f"1 to {groups.size} completions of each group"
        is_group = isinstance(group, Sized) and not isinstance(group, str)
        require(is_group and 1 <= len(group) <= groups.size, "texts", allowed, group)
