"""Verification that begins while other completions of the rollout batch are still sampled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.rewards import Reward
from maxatk.verifier import CodeReward, quick_turns

Decode = Callable[[Sequence[int]], str]


class EarlyVerification:
    """Hands completions to the verifier of the rewards as they end.

    Only rewards of this package that run tests begin early. The reward functions are called as
    ever, and wait for the verdicts; those of a user, and reward models, know nothing of it. The
    rewards are the same: a verdict is found by the whole program and its tests, and a program that
    was not started is verified then.
    """

    def __init__(self, rewards: Sequence[Any], decode: Decode) -> None:
        self._rewards = [r for r in rewards if isinstance(r, (Reward, CodeReward))]
        self._decode = decode
        self._starts: list[Callable[..., None]] = []  # empty outside of a rollout batch

    @contextlib.contextmanager
    def rollout_batch(self) -> Iterator[None]:
        """Take completions inside; programs that nobody has asked for are dropped at the end."""
        with quick_turns(), contextlib.ExitStack() as stack:
            self._starts = [stack.enter_context(reward.ahead()) for reward in self._rewards]
            try:
                yield
            finally:
                self._starts = []

    def ended(self, row: Mapping[str, Any], ids: Sequence[int]) -> None:
        """Start the verification of a completion (its ids) of a row of the data set."""
        text = self._decode(ids) if self._starts else ""
        for start in self._starts:
            start(text, row)
