"""The tiny language of the built-in problems, random problems of it, and noisy solutions.

A pipeline reads one line of integers into the list `a`, changes it by one to three operations, each
a line of Python, and prints one answer. A prompt names every stage of a hidden pipeline, by its
exact name or only by its category, and shows two examples. Short inputs let different programs
agree on some tests, which is what makes rewards continuous.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from functools import cache

from maxatk.check import at_least, require
from maxatk.python_numbers import use_python_numbers
from maxatk.records import Problem, TestCase

READ = "a=list(map(int,input().split()))\n"
OPERATION_COUNTS = {1: 0.2, 2: 0.5, 3: 0.3}
EXAMPLES = 2
INPUT_LENGTHS = (1, 4)
INPUT_RANGE = (-5, 9)
_ATTEMPTS = 40  # inputs tried at least for one pipeline before another pipeline is drawn
_compiled = cache(compile)  # of the lines of the few stages that all pipelines are made of


@dataclasses.dataclass(frozen=True)
class PipelineStage:
    """One stage of a pipeline: its exact name, its category and its line of Python."""

    name: str
    category: str
    line: str


def _stages(category: str, template: str, **expressions: str) -> tuple[PipelineStage, ...]:
    return tuple(
        PipelineStage(name, category, template.format(expression) + "\n")
        for name, expression in expressions.items()
    )


# Inside a category the first stage is the commonest.
OPERATIONS: dict[str, tuple[PipelineStage, ...]] = {
    "order": _stages(
        "order",
        "a={}",
        sort="sorted(a)",
        flip="a[::-1]",
        left="a[1:]+a[:1]",
        desc="sorted(a)[::-1]",
        size="sorted(a,key=abs)",
        right="a[-1:]+a[:-1]",
        deal="a[::2]+a[1::2]",
    ),
    "cut": _stages(
        "cut",
        "a={}",
        tail="a[1:]",
        init="a[:-1]",
        two="a[:2]",
        odds="a[::2]",
        last="a[-2:]",
        evens="a[1::2]",
        three="a[:3]",
        mid="a[1:-1]",
    ),
    "change": _stages(
        "change",
        "a=[{} for x in a]",
        inc="x+1",
        twice="x*2",
        neg="-x",
        abs="abs(x)",
        square="x*x",
        dec="x-1",
        half="x//2",
        mod="x%3",
        thrice="x*3",
        ten="10-x",
    ),
    "keep": _stages(
        "keep",
        "a=[x for x in a if {}]",
        pos="x>0",
        even="x%2<1",
        odd="x%2>0",
        big="x>3",
        small="x<5",
        minus="x<0",
        some="x!=0",
        third="x%3<1",
    ),
}

ANSWERS: tuple[PipelineStage, ...] = _stages(
    "answer",
    "print({})",
    sum="sum(a)",
    max="max(a)",
    len="len(a)",
    first="a[0]",
    min="min(a)",
    end="a[-1]",
    kinds="len(set(a))",
    spread="max(a)-min(a)",
    total="sum(map(abs,a))",
    all="*a",
)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A program of the language: list operations followed by one answer."""

    stages: tuple[PipelineStage, ...]

    @property
    def source(self) -> str:
        """Return the whole stdin/stdout Python program."""
        return READ + "".join(stage.line for stage in self.stages)

    def output(self, numbers: list[int]) -> str | None:
        """Return what the program prints for these numbers, or None where it fails.

        Only lines of this module are executed, never a model's, so no sandbox is needed.
        """
        printed: list[str] = []
        scope = {"a": list(numbers), "print": lambda *v: printed.append(" ".join(map(str, v)))}
        try:
            for stage in self.stages:
                exec(_compiled(stage.line, "<stage>", "exec"), scope)
        except (ValueError, IndexError):  # max() or a[0] of a list that became empty
            return None
        return printed[0] + "\n"


@dataclasses.dataclass(frozen=True)
class Noise:
    """How the solutions of the warm start are spoilt, since a clean model has nothing to explore.

    Args:
        same_category: The chance that a stage is replaced by another one of its category.
        any_stage: The chance that it is replaced by any stage.
        drop: The chance that one stage is dropped.
        delete: The chance that one character is deleted.
    """

    same_category: float = 0.3
    any_stage: float = 0.2
    drop: float = 0.15
    delete: float = 0.5

    def __post_init__(self) -> None:
        use_python_numbers(self)
        for name, chance in dataclasses.asdict(self).items():
            require(0 <= chance <= 1, f"noise.{name}", "a chance from 0 to 1", chance)


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
        deleted = rng.randrange(len(text))
        return text[:deleted] + text[deleted + 1 :]


def generate_problems(
    count: int,
    *,
    seed: int,
    tests: int = 10,
    visible_tests: int = 0,
    prefix: str = "mini",
    exclude: frozenset[str] = frozenset(),
) -> Iterator[MiniProblem]:
    """Yield `count` random problems, the same ones for the same arguments, with distinct prompts.

    None of these is in `exclude`. Raises InvalidValueError when `count` or `tests` is not positive.
    """
    at_least("count", count, 1)
    at_least("tests", tests, 1)
    rng = random.Random(f"{prefix}/{seed}")
    seen = set(exclude)
    made = 0
    while made < count:
        operations = rng.choices(list(OPERATION_COUNTS), weights=list(OPERATION_COUNTS.values()))[0]
        categories = [rng.choice(list(OPERATIONS.values())) for _ in range(operations)]
        categories.append(ANSWERS)
        pipeline = Pipeline(tuple(_zipf(stages, rng) for stages in categories))
        cases = _draw_cases(pipeline, rng, EXAMPLES + tests)
        if cases is None:
            continue
        prompt = _prompt(pipeline, cases[:EXAMPLES], rng)
        if prompt in seen:
            continue
        hidden = tuple(
            TestCase(input=numbers + "\n", output=output) for numbers, output in cases[EXAMPLES:]
        )
        problem = Problem(
            id=f"{prefix}-{made:05d}",
            prompt=prompt,
            tests=hidden,
            visible_tests=hidden[:visible_tests],
            source="mini",
        )
        seen.add(prompt)
        made += 1
        yield MiniProblem(problem, pipeline)


def _zipf(stages: tuple[PipelineStage, ...], rng: random.Random) -> PipelineStage:
    """Return one of the stages, the r-th of them with a chance in proportion to 1 / r."""
    return rng.choices(stages, weights=[1 / rank for rank in range(1, len(stages) + 1)])[0]


def _draw_cases(pipeline: Pipeline, rng: random.Random, count: int) -> list[tuple[str, str]] | None:
    """Return distinct inputs with their outputs, or None where the pipeline mostly fails."""
    cases: dict[str, str] = {}
    for _ in range(max(_ATTEMPTS, 3 * count)):
        numbers = [rng.randint(*INPUT_RANGE) for _ in range(rng.randint(*INPUT_LENGTHS))]
        output = pipeline.output(numbers)
        if output is not None:
            cases.setdefault(" ".join(map(str, numbers)), output)
        if len(cases) == count:
            return list(cases.items())
    return None


def _prompt(pipeline: Pipeline, examples: list[tuple[str, str]], rng: random.Random) -> str:
    """Return the stages, each by its name or its category, the examples, and where to go on."""
    words = [stage.name if rng.random() < 0.5 else stage.category for stage in pipeline.stages]
    lines = [f"{numbers} > {output.strip()}" for numbers, output in examples]
    return "\n".join([" ".join(words), *lines, "#\n"])


def _replace_stage(stage: PipelineStage, rng: random.Random, noise: Noise) -> PipelineStage:
    draw = rng.random()
    if draw < noise.same_category:
        return rng.choice(ANSWERS if stage.category == "answer" else OPERATIONS[stage.category])
    if draw < noise.same_category + noise.any_stage:
        operations = [stage for stages in OPERATIONS.values() for stage in stages]
        return rng.choice([*ANSWERS, *operations])
    return stage
