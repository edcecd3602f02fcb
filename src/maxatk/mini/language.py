"""The tiny language of the built-in problems: pipelines of list operations, as Python programs.

A pipeline reads one line of integers into the list `a`, changes it by one to three operations
and prints one answer. Every stage is one line of ordinary Python, so that any interpreter can
run a program and a model of a few hundred thousand parameters can learn to write one.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from types import CodeType

READ = "a=list(map(int,input().split()))\n"


@dataclasses.dataclass(frozen=True)
class PipelineStage:
    """One stage of a pipeline: its exact name, its category and its line of Python."""

    name: str
    category: str
    line: str


def _stages(category: str, template: str, expressions: dict[str, str]) -> tuple[PipelineStage, ...]:
    return tuple(
        PipelineStage(name=name, category=category, line=template.format(expression) + "\n")
        for name, expression in expressions.items()
    )


# Inside a category the first stage is the commonest (see `problems.py`).
OPERATIONS: dict[str, tuple[PipelineStage, ...]] = {
    "order": _stages(
        "order",
        "a={}",
        {
            "sort": "sorted(a)",
            "flip": "a[::-1]",
            "left": "a[1:]+a[:1]",
            "desc": "sorted(a)[::-1]",
            "size": "sorted(a,key=abs)",
            "right": "a[-1:]+a[:-1]",
            "deal": "a[::2]+a[1::2]",
        },
    ),
    "cut": _stages(
        "cut",
        "a={}",
        {
            "tail": "a[1:]",
            "init": "a[:-1]",
            "two": "a[:2]",
            "odds": "a[::2]",
            "last": "a[-2:]",
            "evens": "a[1::2]",
            "three": "a[:3]",
            "mid": "a[1:-1]",
        },
    ),
    "change": _stages(
        "change",
        "a=[{} for x in a]",
        {
            "inc": "x+1",
            "twice": "x*2",
            "neg": "-x",
            "abs": "abs(x)",
            "square": "x*x",
            "dec": "x-1",
            "half": "x//2",
            "mod": "x%3",
            "thrice": "x*3",
            "ten": "10-x",
        },
    ),
    "keep": _stages(
        "keep",
        "a=[x for x in a if {}]",
        {
            "pos": "x>0",
            "even": "x%2<1",
            "odd": "x%2>0",
            "big": "x>3",
            "small": "x<5",
            "minus": "x<0",
            "some": "x!=0",
            "third": "x%3<1",
        },
    ),
}

ANSWERS: tuple[PipelineStage, ...] = _stages(
    "answer",
    "print({})",
    {
        "sum": "sum(a)",
        "max": "max(a)",
        "len": "len(a)",
        "first": "a[0]",
        "min": "min(a)",
        "end": "a[-1]",
        "kinds": "len(set(a))",
        "spread": "max(a)-min(a)",
        "total": "sum(map(abs,a))",
        "all": "*a",
    },
)


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A program of the language: list operations followed by one answer."""

    operations: tuple[PipelineStage, ...]
    answer: PipelineStage

    @property
    def stages(self) -> tuple[PipelineStage, ...]:
        """Return the operations and the answer, in the order in which they run."""
        return (*self.operations, self.answer)

    @property
    def source(self) -> str:
        """Return the whole stdin/stdout Python program."""
        return READ + "".join(stage.line for stage in self.stages)

    @cached_property
    def _code(self) -> CodeType:
        return compile("".join(stage.line for stage in self.stages), "<pipeline>", "exec")

    def output(self, numbers: list[int]) -> str | None:
        """Return what the program prints for these numbers, or None where it fails.

        Only lines of this module are executed, never a model's, so no sandbox is needed.
        """
        printed: list[str] = []
        scope = {"a": list(numbers), "print": lambda *v: printed.append(" ".join(map(str, v)))}
        try:
            exec(self._code, scope)
        except (ValueError, IndexError):  # max() or a[0] of a list that became empty
            return None
        return printed[0] + "\n"
