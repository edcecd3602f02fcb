"""The reward functions of a training: which of them reward, which one selects, what answers are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from maxatk.errors import InvalidValueError, unknown_name
from maxatk.functions import load_function
from maxatk.objectives.best_of import MARK
from maxatk.objectives.objective import Beside
from maxatk.rewards import Reward
from maxatk.verifier import CodeReward, quick_turns

_SHOWN = 200  # characters of a text in an error


class RewardFunctions:
    """The reward functions of a trainer of TRL, read as the settings of a `MaxAtKConfig` say.

    A function that selects has no weight in the reward. With `early`, functions of this package
    that run tests verify completions while others are still sampled: `ended` starts the program,
    and the function waits for its verdict, or begins one, when TRL calls it.

    Raises InvalidValueError for a selection that is none of the functions, or the only one.
    """

    def __init__(self, trainer: Any, *, early: bool) -> None:
        self._args = args = trainer.args
        names = trainer.reward_func_names
        refuse_best_of(trainer.reward_funcs)
        self._selecting: int | None = None
        if args.selection is not None:
            if args.selection not in names:
                raise unknown_name("selection", args.selection, names)
            if len(names) == 1:
                raise InvalidValueError(
                    f"selection: {args.selection!r} is the only reward function, which leaves no "
                    "reward"
                )
            self._selecting = list(names).index(args.selection)
            trainer.reward_weights[self._selecting] = 0.0  # also in what TRL logs as the reward
        self._weights = trainer.reward_weights
        self._answer = args.answers and load_function(args.answers, field="answers")
        # Where TRL makes more of a completion than its text, nothing is known of it before.
        parsers = ("response_template", "response_schema")
        parsed = any(getattr(trainer._tokenizer, name, None) for name in parsers)
        functions = trainer.reward_funcs if early and not (parsed or trainer.tools) else []
        self._early = [f for f in functions if isinstance(f, (Reward, CodeReward))]
        self._decode = functools.partial(trainer._tokenizer.decode, skip_special_tokens=True)
        self._starts: list[Callable[..., None]] = []  # empty outside of a rollout batch

    @contextlib.contextmanager
    def rollout_batch(self) -> Iterator[None]:
        """Take completions inside; programs that nobody has asked for are dropped at the end."""
        with quick_turns(), contextlib.ExitStack() as stack:
            self._starts = [stack.enter_context(function.ahead()) for function in self._early]
            try:
                yield
            finally:
                self._starts = []

    def ended(self, row: Mapping[str, Any], ids: Sequence[int]) -> None:
        """Start the verification of a completion (its ids) of a row of the data set."""
        text = self._decode(ids) if self._starts else ""
        for start in self._starts:
            start(text, row)

    def read(self, scores: torch.Tensor, texts: Sequence[str]) -> tuple[np.ndarray, Beside]:
        """Return rewards (rows,), NaN for none, and what is beside, of scores (rows, functions)."""
        rewarded = [place for place in range(scores.size(1)) if place != self._selecting]
        weights = self._weights[None].to(scores.device)[:, rewarded]
        rewards = (scores[:, rewarded] * weights).nansum(dim=1)
        rewards[scores[:, rewarded].isnan().all(dim=1)] = torch.nan
        selection = None
        if self._selecting is not None:
            selection = scores[:, self._selecting].double().cpu().numpy()
        return rewards.double().cpu().numpy(), Beside(selection, self._answers(texts))

    def _answers(self, texts: Sequence[str]) -> np.ndarray | None:
        """Return a number for the answer of every text, equal for equal answers."""
        if self._answer is None:
            return None
        seen: dict[Hashable, int] = {}
        numbers = []
        for text in texts:
            try:
                answer = self._answer(text)
                known = None if answer != answer else answer  # NaN as None
                numbers.append(seen.setdefault(known, len(seen)))
            except Exception as error:  # of a function of the user, or of an answer without a hash
                raise InvalidValueError(
                    f"answers: {self._args.answers!r} must return a hashable answer to every text, "
                    f"and failed on {text[:_SHOWN]!r}: {type(error).__name__}: {error}"
                ) from error
        return np.array(numbers)


def refuse_best_of(functions: Sequence[Any]) -> None:
    """Raise InvalidValueError for a reward function that makes advantages by itself."""
    for function in functions:
        if hasattr(function, MARK):
            raise InvalidValueError(
                f"reward_funcs: {function.__name__} is a reward of maxatk.best_of, which makes "
                "advantages, as this trainer does; allowed: the reward that best_of was given"
            )
