r"""Word problems with a number as their answer: a task of the built-in model that is not code.

A prompt tells a short story of pens that come and go; a completion computes step by step and ends
with `\boxed{...}`. There are no tests: the reward `answer` compares the number, and a function of
one's own may give partial credit.

Numbers are small enough for a quarter of a million parameters to learn their sums. What the warm
start gets wrong is the reading of the story, which the prompt decides and training can put right.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Sequence

from maxatk.check import at_least
from maxatk.mini.problems import Noise
from maxatk.records import Problem

STEP_COUNTS = {3: 0.5, 4: 0.5}
LARGEST = 9  # pens that somebody has at any time: sums of one digit
MOST_CHANGED = 4  # pens of one event; at most half of LARGEST, so that they can come or go
_NAMES = ("Ann", "Ben", "Cy", "Di", "Eve", "Flo", "Gus", "Hal", "Ida", "Jo")
_VERBS = {"gets": 1, "buys": 1, "finds": 1, "loses": -1, "sells": -1, "lends": -1}


@dataclasses.dataclass(frozen=True)
class Event:
    """What happens to the pens: its sentence, and how many more there are afterwards."""

    sentence: str
    change: int


@dataclasses.dataclass(frozen=True)
class SumProblem:
    """A word problem with its story: the pens at first, and what happens to them."""

    problem: Problem
    pens: int
    events: tuple[Event, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines of the solution, the last of which boxes the answer."""
        return solution(self.pens, self.events)

    def noisy(self, rng: random.Random, noise: Noise) -> str:
        """Return the solution, spoilt: events misread, a line dropped, a character deleted.

        An event is misread as often as a stage of a program is replaced by one of its category.
        What is computed from what was read is right.
        """
        lines = [*solution(self.pens, _misread(self.pens, self.events, rng, noise))]
        if rng.random() < noise.drop:
            del lines[rng.randrange(len(lines))]
        return noise.typo("\n".join(lines), rng)


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
    at_least("count", count, 1)
    rng = random.Random(f"sums/{prefix}/{seed}")
    seen = set(exclude)
    made = 0
    while made < count:
        drawn = _draw(rng, identity=f"{prefix}-{made:05d}")
        if drawn.problem.prompt in seen:
            continue
        seen.add(drawn.problem.prompt)
        made += 1
        yield drawn


def solution(pens: int, events: Iterable[Event]) -> tuple[str, ...]:
    """Return the lines that compute how many pens are left, the last of which boxes them."""
    lines = []
    for event in events:
        lines.append(f"{pens}{event.change:+d}={pens + event.change}")
        pens += event.change
    return (*lines, rf"\boxed{{{pens}}}")


def _draw(rng: random.Random, *, identity: str) -> SumProblem:
    steps = rng.choices(list(STEP_COUNTS), weights=list(STEP_COUNTS.values()))[0]
    first = pens = rng.randint(1, LARGEST)
    sentences, events = [f"{rng.choice(_NAMES)} has {pens} pens"], list[Event]()
    while len(events) < steps:
        event = _draw_event(rng)
        if _possible(pens, event):
            events.append(event)
            sentences.append(event.sentence)
            pens += event.change
    problem = Problem(
        id=identity,
        prompt=", ".join(sentences) + "\n#\n",
        source="mini",
        answer=str(pens),
        meta={"steps": steps},
    )
    return SumProblem(problem, pens=first, events=tuple(events))


def _draw_event(rng: random.Random) -> Event:
    verb, sign = rng.choice(list(_VERBS.items()))
    pens = rng.randint(1, MOST_CHANGED)
    return Event(f"{verb} {pens}", sign * pens)


def _possible(pens: int, event: Event) -> bool:
    return 0 <= pens + event.change <= LARGEST


def _misread(
    pens: int, events: Sequence[Event], rng: random.Random, noise: Noise
) -> Iterator[Event]:
    """Yield every event or its opposite, and the other of the two where one cannot be.

    So all sums are among the few that right solutions have, and the model learns those. Right
    answers by luck are rare enough for training to find out what a right reading is worth.
    """
    for event in events:
        if rng.random() < noise.same_category:
            event = _opposite(event)
        if not _possible(pens, event):
            event = _opposite(event)
        pens += event.change
        yield event


def _opposite(event: Event) -> Event:
    return dataclasses.replace(event, change=-event.change)
