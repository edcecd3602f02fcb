"""Word problems of the built-in model: solutions are right, noise is misreading."""

import itertools
import random
import re
from collections import Counter

import pytest

from maxatk.errors import InvalidValueError
from maxatk.mini import MiniSettings, Noise
from maxatk.mini.build import draw_problems
from maxatk.mini.sums import LARGEST, STEP_COUNTS, generate_sums


def made(count=200, **changes):
    return list(generate_sums(count, **{"seed": 0, **changes}))


def read(prompt):
    """The pens at first and the change of every event, as a reader of the prompt alone has them."""
    first, *told = prompt.removesuffix("\n#\n").split(", ")
    changes = []
    for sentence in told:
        verb, pens = sentence.split()
        changes.append(int(pens) if verb in ("gets", "buys", "finds") else -int(pens))
    return int(re.search(r"\d+", first)[0]), changes


def test_the_prompt_alone_decides_the_answer_and_no_total_is_large():
    for found in made():
        pens, changes = read(found.problem.prompt)
        totals = list(itertools.accumulate(changes, initial=pens))
        assert totals[-1] == int(found.problem.answer)
        assert min(totals) >= 0
        assert max(totals) <= LARGEST < 10  # what so small a model can add up


def test_every_step_of_a_solution_is_right_and_its_last_result_the_answer():
    for found in made():
        *steps, last = found.lines
        for step in steps:
            left, _, right = step.partition("=")
            assert eval(left) == int(right)
        assert last == rf"\boxed{{{found.problem.answer}}}"
        assert steps[-1].endswith(f"={found.problem.answer}")
        assert 0 <= int(found.problem.answer) <= LARGEST


def test_the_story_has_the_steps_that_its_meta_says():
    for found in made():
        assert found.problem.prompt.count(",") == found.problem.meta["steps"]
        numbers = re.findall(r"\d+", found.problem.prompt)
        assert all(number in "".join(found.lines) for number in numbers)


def test_prompts_differ_from_each_other_and_from_those_that_are_excluded():
    first = {found.problem.prompt for found in made()}
    assert len(first) == 200
    others = made(exclude=frozenset(first))
    assert not first & {found.problem.prompt for found in others}
    assert [p.problem for p in made()] == [p.problem for p in made()]
    with pytest.raises(InvalidValueError, match="count: must be at least 1, got 0"):
        made(0)


def test_noise_spoils_about_the_share_it_says_and_none_spoils_nothing():
    rng = random.Random(0)
    clean = Noise(same_category=0, any_stage=0, drop=0, delete=0)
    assert all(p.noisy(rng, clean) == "\n".join(p.lines) for p in made())
    dropped = Noise(same_category=0, any_stage=0, drop=0.5, delete=0)
    shorter = [len(p.noisy(rng, dropped).splitlines()) < len(p.lines) for p in made(1000)]
    assert 0.45 < sum(shorter) / 1000 < 0.55


def test_a_spoilt_solution_misreads_the_story_and_computes_right():
    rng = random.Random(0)
    misreading = Noise(same_category=0.4, any_stage=0, drop=0, delete=0)
    stories = made(1000)
    wrong = open_to_both = 0
    for found in stories:
        pens, changes = read(found.problem.prompt)
        *steps, last = found.noisy(rng, misreading).splitlines()
        for step in steps:
            left, _, right = step.partition("=")
            assert eval(left) == int(right)
        for step, change in zip(steps, changes, strict=True):
            result = int(step.partition("=")[2])
            assert abs(result - pens) == abs(change)
            assert 0 <= result <= LARGEST
            if (
                0
                <= min(pens - change, pens + change)
                <= max(pens - change, pens + change)
                <= LARGEST
            ):
                open_to_both += 1
                wrong += result - pens != change
            pens = result
        assert last == rf"\boxed{{{pens}}}"
    assert 0.36 < wrong / open_to_both < 0.44


def test_long_and_short_stories_have_the_shares_they_say():
    steps = Counter(found.problem.meta["steps"] for found in made(5000))
    assert {count: round(made / 5000, 1) for count, made in steps.items()} == STEP_COUNTS


def test_both_tasks_make_problems_of_their_kind():
    for task, field in (("programs", "tests"), ("sums", "answer")):
        problems = draw_problems(MiniSettings(task=task, tests=2), 3, prefix="test")
        assert all(getattr(p.problem, field) for p in problems)
