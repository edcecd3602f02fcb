r"""Word problems with a number as their answer: a task of the built-in model that is not code.

A prompt tells a short story of pens that come and go; a completion computes step by step and ends
with `\boxed{...}`. There are no tests: the reward `answer` compares the number, and a function of
one's own may give partial credit.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator

from maxatk.errors import InvalidValueError
from maxatk.mini.problems import Noise
from maxatk.records import Problem

STEP_COUNTS = {1: 0.3, 2: 0.4, 3: 0.3}
LARGEST = 99
_NAMES = ("Ann", "Ben", "Cy", "Di", "Eve")
_NEAR = (-10, -2, -1, 1, 2, 10)  # how far off a wrong result of one step is


@dataclasses.dataclass(frozen=True)
class _Event:
    """What happens to the pens: its sentence and the pens it changes, from two small numbers."""

    sentence: str
    change: Callable[[int, int], int]
    line: str = ""  # how the change itself is computed, where that is a step of its own


_EVENTS = (
    _Event("gets {a}", lambda a, _: a),
    _Event("loses {a}", lambda a, _: -a),
    _Event("buys {a} boxes of {b}", lambda a, b: a * b, "{a}*{b}={c}"),
    _Event("gives {b} to each of {a} friends", lambda a, b: -a * b, "{a}*{b}={c}"),
)


@dataclasses.dataclass(frozen=True)
class SumProblem:
    """A word problem with the lines of its solution, the last of which boxes the answer."""

    problem: Problem
    lines: tuple[str, ...]

    def noisy(self, rng: random.Random, noise: Noise) -> str:
        """Return the solution, spoilt: results that are off, a line dropped, a character deleted.

        A step has a wrong result as often as a stage of a program is replaced.
        """
        lines = [_spoilt(line, rng, noise) for line in self.lines]
        if rng.random() < noise.drop:
            del lines[rng.randrange(len(lines))]
        text = "\n".join(lines)
        if text and rng.random() < noise.delete:
            place = rng.randrange(len(text))
            text = text[:place] + text[place + 1 :]
        return text


def generate_sums(
    count: int,
    *,
    seed: int,
    prefix: str = "sums",
    exclude: frozenset[str] = frozenset(),
) -> Iterator[SumProblem]:
    """Yield `count` random word problems with different prompts, none of them in `exclude`.

    The same arguments give the same problems. `meta` holds the number of `steps`. Raises
    InvalidValueError when `count` is not positive.
    """
    if count < 1:
        raise InvalidValueError(f"count: must be at least 1, got {count}")
    rng = random.Random(f"sums/{prefix}/{seed}")
    seen = set(exclude)
    made = 0
    while made < count:
        drawn = _draw(rng, identity=f"{prefix}-{made:05d}")
        if drawn is None or drawn.problem.prompt in seen:
            continue
        seen.add(drawn.problem.prompt)
        made += 1
        yield drawn


def _draw(rng: random.Random, *, identity: str) -> SumProblem | None:
    steps = rng.choices(list(STEP_COUNTS), weights=list(STEP_COUNTS.values()))[0]
    pens = rng.randint(1, 20)
    sentences, lines = [f"{rng.choice(_NAMES)} has {pens} pens"], []
    for _ in range(steps):
        event = rng.choice(_EVENTS)
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        change = event.change(a, b)
        if event.line:
            lines.append(event.line.format(a=a, b=b, c=abs(change)))
        sentences.append(event.sentence.format(a=a, b=b))
        lines.append(f"{pens}{change:+d}={pens + change}")
        pens += change
        if not 0 <= pens <= LARGEST:
            return None
    prompt = ", ".join(sentences) + "\n#\n"
    return SumProblem(
        problem=Problem(
            id=identity, prompt=prompt, source="mini", answer=str(pens), meta={"steps": steps}
        ),
        lines=(*lines, rf"\boxed{{{pens}}}"),
    )


def _spoilt(line: str, rng: random.Random, noise: Noise) -> str:
    before, equals, result = line.partition("=")
    if equals and rng.random() < noise.same_category:
        return f"{before}={max(0, int(result) + rng.choice(_NEAR))}"
    return line
