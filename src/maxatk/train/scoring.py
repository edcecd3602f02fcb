"""From the scores that reward functions gave completions to the groups of a rollout batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch

from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Objective
from maxatk.train.rollout_batch import RolloutBatch, Scored


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a trainer reads the scores (rows, functions) of its reward functions.

    The function at the place `selecting` selects a sample and is not rewarded; the weighted sum of
    the others is the reward.
    """

    names: Sequence[str]  # of the functions
    weights: torch.Tensor  # (functions,)
    selecting: int | None
    answer: Callable[[str], Any] | None  # reads the answer of a text, where the method needs it
    masks_cut_off: bool  # whether the loss leaves out completions that are cut off

    def groups(
        self, scored: Scored, objective: Objective, *, size: int, progress: float
    ) -> RolloutBatch:
        """Return the groups of so many samples that the completions of all processes came to.

        `progress` is the share of the training that is done, by which the objective has its k.
        """
        rewards = self._weighted_sums(scored.scores)
        if objective.needs_ratios:
            rewards[scored.masked] = np.nan  # what is cut off has no log-probability
        selection = None
        if self.selecting is not None:
            selection = scored.scores[:, self.selecting].double().cpu().numpy()
        answers = None
        if self.answer is not None:
            name = str(objective.answers)
            answers = numbered_answers(self.answer, scored.last_texts, called=name)
        masked = np.array(scored.masked) if self.masks_cut_off else None
        marks = None if scored.marks is None else np.array(scored.marks, dtype=float)
        return RolloutBatch(
            rewards.reshape(-1, size),
            objective.k_at(progress),
            selection=_in_groups(selection, size),
            answers=_in_groups(answers, size),
            masked=_in_groups(masked, size),
            marks=_in_groups(marks, size),
        )

    def for_trl(self, scores: torch.Tensor) -> torch.Tensor:
        """Return scores in which a sample without a reward has none at all.

        TRL would take the score that selects for its reward, and with its weight of 0 log a 0.
        """
        if self.selecting is None:
            return scores
        without = scores.clone()
        without[self._are_unrewarded(scores), self.selecting] = torch.nan
        return without

    def refuse_infinite(self, scores: torch.Tensor) -> None:
        """Raise InvalidValueError that names a model whose reward no float32 of TRL holds.

        Of what is no model, `with_checked_values` has looked at the values themselves.
        """
        for name, column in zip(self.names, scores.T, strict=True):
            infinite = column[column.isinf()]
            if len(infinite):
                raise InvalidValueError(
                    f"reward_funcs: {name} must return for each completion a finite number or "
                    f"NaN; got {float(infinite[0])}"
                )

    def _weighted_sums(self, scores: torch.Tensor) -> np.ndarray:
        """Return the reward of every row, NaN where no function that is rewarded gave one."""
        rewarded = self._rewarded(scores)
        weights = self.weights[None].to(scores.device)[:, rewarded]
        sums = (scores[:, rewarded] * weights).nansum(dim=1)
        sums[self._are_unrewarded(scores)] = torch.nan
        rewards: np.ndarray = sums.double().cpu().numpy()
        return rewards

    def _are_unrewarded(self, scores: torch.Tensor) -> torch.Tensor:
        """Return whether no function that is rewarded gave a row anything, (rows,)."""
        unrewarded: torch.Tensor = scores[:, self._rewarded(scores)].isnan().all(dim=1)
        return unrewarded

    def _rewarded(self, scores: torch.Tensor) -> list[int]:
        """Return the places of the functions whose scores are summed."""
        return [place for place in range(scores.size(1)) if place != self.selecting]


def _in_groups(column: np.ndarray | None, size: int) -> np.ndarray | None:
    return None if column is None else column.reshape(-1, size)


def numbered_answers(
    answer_of: Callable[[str], Any], texts: Sequence[str], *, called: str
) -> np.ndarray:
    """Return a number for the answer of every text, equal for equal answers; NaN and None are one.

    Raises InvalidValueError where the function, `called` so in the settings, fails on a text.
    """
    number_of: dict[Hashable, int] = {}
    numbers = []
    for text in texts:
        try:
            answer = answer_of(text)
            if answer != answer:  # NaN, which is one answer
                answer = None
            numbers.append(number_of.setdefault(answer, len(number_of)))
        except Exception as error:  # of a function of the user, or of an answer without a hash
            raise InvalidValueError(
                f"answers: {called!r} must return a hashable answer to every text, and failed on "
                f"{text[:200]!r}: {type(error).__name__}: {error}"
            ) from error
    return np.array(numbers)
