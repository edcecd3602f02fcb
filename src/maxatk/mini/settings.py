"""Settings of the built-in model and its problems."""

from __future__ import annotations

import dataclasses

from maxatk.check import at_least, positive, require
from maxatk.mini.problems import Noise
from maxatk.python_numbers import use_python_numbers

_SEEDS = 1 << 63  # that torch takes


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start: one epoch of supervised training.

    Args:
        problems: Solved problems of the epoch.
        batch_size: Problems of an optimizer step.
        learning_rate: The peak, at the start of a cosine.
        warmup_steps: Optimizer steps of the rise to it.
        noise: How the solutions are spoilt.
    """

    problems: int = 45_000
    batch_size: int = 64
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    noise: Noise = dataclasses.field(default_factory=Noise)

    def __post_init__(self) -> None:
        use_python_numbers(self)
        at_least("problems", self.problems, 1)
        at_least("batch_size", self.batch_size, 1)
        at_least("warmup_steps", self.warmup_steps, 0)
        positive("learning_rate", self.learning_rate)


@dataclasses.dataclass(frozen=True)
class MiniSettings:
    """What to build: problem sets, tests a problem, the warm start and the seed of it all.

    Args:
        train_problems: Problems of train.jsonl.
        test_problems: Problems of test.jsonl, none of which the model has seen.
        tests: Tests of a program.
        visible_tests: So many of the first tests are visible, which a program may be chosen by.
        seed: Fixes the problems, the noise and the model.
        warm_start: The supervised training before.
    """

    train_problems: int = 1_000
    test_problems: int = 96
    tests: int = 10
    visible_tests: int = 0
    seed: int = 0
    warm_start: WarmStart = dataclasses.field(default_factory=WarmStart)

    def __post_init__(self) -> None:
        use_python_numbers(self)
        for name in ("train_problems", "test_problems", "tests"):
            at_least(name, getattr(self, name), 1)
        require(0 <= self.seed < _SEEDS, "seed", "from 0, below 2**63", self.seed)
        fits = 0 <= self.visible_tests <= self.tests
        allowed = f"between 0 and tests ({self.tests})"
        require(fits, "visible_tests", allowed, self.visible_tests)
