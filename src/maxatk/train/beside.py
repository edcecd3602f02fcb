"""Reads what a method looks at beside the rewards out of a rollout batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives.objective import Beside
from maxatk.train.config import MaxAtKConfig
from maxatk.train.objective_checks import answer_function


class BesideReader:
    """The place of the reward function that selects, and the function that reads answers.

    `names` are those of the reward functions. Raises InvalidValueError for a selection that is
    none of them, or the only one.
    """

    def __init__(self, args: MaxAtKConfig, names: Sequence[str]) -> None:
        if args.selection is not None and args.selection not in names:
            raise unknown_name("selection", args.selection, names)
        if args.selection is not None and len(names) == 1:
            raise InvalidValueError(
                f"selection: {args.selection!r} is the only reward function, which leaves no reward"
            )
        self._place = None if args.selection is None else list(names).index(args.selection)
        self._answer = None if args.answers is None else answer_function(args.answers)

    def rewarded(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the columns (rows, functions) of the functions that are rewarded."""
        kept = [place for place in range(scores.size(1)) if place != self._place]
        return scores[:, kept]

    def read(self, scores: torch.Tensor, texts: Sequence[str]) -> Beside:
        """Return what lies beside the rewards, (rows,), of scores (rows, functions) and texts."""
        selection = answers = None
        if self._place is not None:
            selection = scores[:, self._place].double().cpu().numpy()
        if self._answer is not None:
            seen: dict[Hashable, int] = {}
            answers = np.array([seen.setdefault(self._answer(text), len(seen)) for text in texts])
        return Beside(selection, answers)
