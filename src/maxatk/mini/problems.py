"""Random problems of the embedded language, and the noisy solutions the warm start learns from.

A prompt names every stage of a hidden pipeline, by its exact name or only by its category, and
shows two examples. Guessing the hidden stages right takes luck or the examples; short inputs let
different programs agree on some tests, which is what makes rewards continuous.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from maxatk.check import at_least
from maxatk.mini.language import ANSWERS, OPERATIONS, READ, Pipeline, PipelineStage
from maxatk.records import Problem, TestCase

OPERATION_COUNTS = {1: 0.2, 2: 0.5, 3: 0.3}
EXAMPLES = 2
INPUT_LENGTHS = (1, 4)
INPUT_RANGE = (-5, 9)
_ATTEMPTS = 40  # inputs tried for one pipeline before another pipeline is drawn


@dataclasses.dataclass(frozen=True)
class Noise:
    """How the solutions of the warm start are spoilt; every field is a probability.

    The removable errors and the spread over neighbouring programs are what reinforcement learning
    has to work with: a clean model has nothing to explore.

    Args:
        same_category: That a stage is replaced by another one of its category.
        any_stage: That a stage is replaced by any stage.
        drop: That one stage is dropped.
        delete: That one character is deleted.
    """

    same_category: float = 0.3
    any_stage: float = 0.2
    drop: float = 0.15
    delete: float = 0.5


@dataclasses.dataclass(frozen=True)
class MiniProblem:
    """A problem of the embedded language with the pipeline that solves it."""

    problem: Problem
    pipeline: Pipeline

    def noisy(self, rng: random.Random, noise: Noise) -> str:
        """Return a program near the right one, spoilt as `noise` says."""
        stages = [_replace_stage(stage, rng, noise) for stage in self.pipeline.stages]
        if rng.random() < noise.drop:
            del stages[rng.randrange(len(stages))]
        text = READ + "".join(stage.line for stage in stages)
        if rng.random() >= noise.delete:
            return text
        place = rng.randrange(len(text))
        return text[:place] + text[place + 1 :]


def generate_problems(
    count: int,
    *,
    seed: int,
    tests: int = 10,
    prefix: str = "mini",
    exclude: frozenset[str] = frozenset(),
) -> Iterator[MiniProblem]:
    """Yield `count` random problems, the same ones for the same arguments.

    Prompts in `exclude` and repeated prompts are drawn again, so the prompts of a set are
    distinct and disjoint from the excluded ones.

    Raises InvalidValueError when `count` or `tests` is not positive.
    """
    at_least("count", count, 1)
    at_least("tests", tests, 1)
    rng = random.Random(f"{prefix}/{seed}")
    seen = set(exclude)
    made = 0
    while made < count:
        drawn = _draw_problem(rng, tests=tests, identity=f"{prefix}-{made:05d}")
        if drawn is None or drawn.problem.prompt in seen:
            continue
        seen.add(drawn.problem.prompt)
        made += 1
        yield drawn


def _draw_problem(rng: random.Random, *, tests: int, identity: str) -> MiniProblem | None:
    pipeline = _draw_pipeline(rng)
    cases = _draw_cases(pipeline, rng, EXAMPLES + tests)
    if cases is None:
        return None
    prompt = _prompt(pipeline, cases[:EXAMPLES], rng)
    hidden = tuple(TestCase(input=given + "\n", output=out) for given, out in cases[EXAMPLES:])
    return MiniProblem(
        problem=Problem(id=identity, prompt=prompt, tests=hidden, source="mini"),
        pipeline=pipeline,
    )


def _draw_pipeline(rng: random.Random) -> Pipeline:
    count = rng.choices(list(OPERATION_COUNTS), weights=list(OPERATION_COUNTS.values()))[0]
    categories = [rng.choice(list(OPERATIONS)) for _ in range(count)]
    operations = tuple(_zipf(OPERATIONS[category], rng) for category in categories)
    return Pipeline(operations=operations, answer=_zipf(ANSWERS, rng))


def _zipf(stages: tuple[PipelineStage, ...], rng: random.Random) -> PipelineStage:
    return rng.choices(stages, weights=[1 / rank for rank in range(1, len(stages) + 1)])[0]


def _draw_cases(pipeline: Pipeline, rng: random.Random, count: int) -> list[tuple[str, str]] | None:
    """Return distinct inputs with their outputs, or None where the pipeline mostly fails."""
    cases: dict[str, str] = {}
    for _ in range(_ATTEMPTS):
        numbers = [rng.randint(*INPUT_RANGE) for _ in range(rng.randint(*INPUT_LENGTHS))]
        output = pipeline.output(numbers)
        if output is not None:
            cases.setdefault(" ".join(map(str, numbers)), output)
        if len(cases) == count:
            return list(cases.items())
    return None


def _prompt(pipeline: Pipeline, examples: list[tuple[str, str]], rng: random.Random) -> str:
    words = [s.name if rng.random() < 0.5 else s.category for s in pipeline.stages]
    shown = [f"{given} > {output.strip()}" for given, output in examples]
    return "\n".join([" ".join(words), *shown, "#\n"])


def _replace_stage(stage: PipelineStage, rng: random.Random, noise: Noise) -> PipelineStage:
    draw = rng.random()
    if draw < noise.same_category:
        return rng.choice(ANSWERS if stage.category == "answer" else OPERATIONS[stage.category])
    if draw < noise.same_category + noise.any_stage:
        return rng.choice([*ANSWERS, *(s for group in OPERATIONS.values() for s in group)])
    return stage
