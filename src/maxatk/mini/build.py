"""Build the embedded default: problems, tokenizer and warm-started model in one folder."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from pathlib import Path

from maxatk.check import at_least, positive, require
from maxatk.folders import read_json, write_json
from maxatk.jsonl import write_jsonl
from maxatk.mini.problems import Noise, generate_problems

MANIFEST = "mini.json"
_TOKENIZER_TEXTS = 10_000  # more texts change a vocabulary of 192 entries no more


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
        at_least("problems", self.problems, 1)
        at_least("batch_size", self.batch_size, 1)
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
        for name in ("train_problems", "test_problems", "tests"):
            at_least(name, getattr(self, name), 1)
        fits = 0 <= self.visible_tests <= self.tests
        allowed = f"between 0 and tests ({self.tests})"
        require(fits, "visible_tests", allowed, self.visible_tests)


def build_mini(
    out: str | Path,
    settings: MiniSettings,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write `train.jsonl`, `test.jsonl` and the model folder `base` below `out`.

    The same settings give the same files on the same machine; a folder that already holds them is
    left as it is. No test prompt is among those of the training and the warm start.
    `progress(done, total)` counts optimizer steps of the warm start.
    """
    out = Path(out)
    manifest = {"settings": dataclasses.asdict(settings)}
    if (out / MANIFEST).is_file() and read_json(out / MANIFEST) == manifest:
        return
    # Before any file: what it needs may be missing.
    from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer, warm_start

    (out / MANIFEST).unlink(missing_ok=True)
    draw = functools.partial(
        generate_problems,
        seed=settings.seed,
        tests=settings.tests,
        visible_tests=settings.visible_tests,
    )
    test = list(draw(settings.test_problems, prefix="test"))
    held_out = frozenset(made.problem.prompt for made in test)
    train = draw(settings.train_problems, prefix="train", exclude=held_out)
    for name, problems in (("train", train), ("test", test)):
        write_jsonl(out / f"{name}.jsonl", (made.problem.to_json() for made in problems))
    # No program of the warm start is verified.
    training = settings.warm_start
    solved = draw(training.problems, tests=1, prefix="corpus", exclude=held_out)
    corpus = noisy_corpus(solved, noise=training.noise, seed=settings.seed)
    sampled = random.Random(settings.seed).sample(corpus, min(len(corpus), _TOKENIZER_TEXTS))
    tokenizer = train_tokenizer([prompt + completion for prompt, completion in sampled])
    model = new_model(tokenizer, seed=settings.seed)
    warm_start(model, tokenizer, corpus, settings=training, seed=settings.seed, progress=progress)
    model.save_pretrained(out / "base")
    tokenizer.save_pretrained(out / "base")
    write_json(out / MANIFEST, manifest)
