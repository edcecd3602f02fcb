import random
from collections import Counter
from itertools import islice

import pytest

from maxatk.errors import InvalidValueError
from maxatk.mini import Noise, generate_problems
from maxatk.mini.problems import ANSWERS, OPERATION_COUNTS, OPERATIONS, READ
from maxatk.verifier import Job, Verifier


@pytest.fixture(scope="module")
def many():
    return list(generate_problems(2000, seed=1, tests=2))


def test_the_same_seed_gives_the_same_problems():
    first, again = (list(generate_problems(30, seed=5)) for _ in range(2))
    assert first == again
    assert list(islice(generate_problems(99, seed=5), 30)) == first


def test_other_seeds_and_prefixes_give_other_problems():
    prompts = [
        {p.problem.prompt for p in generate_problems(30, seed=seed, prefix=prefix)}
        for seed, prefix in [(5, "mini"), (6, "mini"), (5, "test")]
    ]
    assert not set.intersection(*prompts)
    assert all(len(a & b) < 3 for a, b in [prompts[:2], prompts[1:], prompts[::2]])


def test_prompts_are_distinct_and_disjoint_from_the_excluded(many):
    prompts = frozenset(p.problem.prompt for p in many)
    assert len(prompts) == len(many)
    new_problems = list(generate_problems(500, seed=1, tests=2, exclude=prompts))
    assert len(new_problems) == 500
    assert not prompts & {p.problem.prompt for p in new_problems}


def test_ids_are_distinct_and_carry_the_prefix():
    made = list(generate_problems(3, seed=0, prefix="train"))
    assert [p.problem.id for p in made] == ["train-00000", "train-00001", "train-00002"]


def test_hidden_tests_are_distinct_and_not_the_shown_examples():
    for made in generate_problems(100, seed=2, tests=8):
        lines = made.problem.prompt.splitlines()
        shown = {line.split(" >")[0] for line in lines[1:-1]}
        hidden = {test.input.strip() for test in made.problem.tests}
        assert (len(shown), len(hidden)) == (2, 8)
        assert not shown & hidden


def test_a_program_may_have_many_tests():
    (made,) = generate_problems(1, seed=2, tests=200)
    assert len({test.input for test in made.problem.tests}) == 200


def test_a_prompt_has_a_word_a_stage_two_examples_and_the_end_mark(many):
    for made in many[:200]:
        words, *examples, end, after = made.problem.prompt.split("\n")
        assert (len(examples), end, after) == (2, "#", "")
        for word, stage in zip(words.split(), made.pipeline.stages, strict=True):
            assert word in (stage.name, stage.category)
        for example in examples:
            line, output = example.split(" >")
            assert made.pipeline.output(list(map(int, line.split()))).strip() == output.strip()


def test_inputs_are_short_and_small(many):
    numbers = [[int(n) for n in t.input.split()] for p in many for t in p.problem.tests]
    assert {len(row) for row in numbers} == {1, 2, 3, 4}
    flat = [number for row in numbers for number in row]
    assert (min(flat), max(flat)) == (-5, 9)


def share(counter, key):
    return counter[key] / counter.total()


def test_stages_are_drawn_as_configured(many):
    counts = Counter(len(p.pipeline.stages) - 1 for p in many)
    for count, chance in OPERATION_COUNTS.items():
        assert share(counts, count) == pytest.approx(chance, abs=0.06)
    exact = Counter(
        word == stage.name
        for p in many
        for word, stage in zip(p.problem.prompt.split(), p.pipeline.stages, strict=False)
    )
    assert share(exact, True) == pytest.approx(0.5, abs=0.03)
    changes = Counter(s.name for p in many for s in p.pipeline.stages if s.category == "change")
    ranked = [stage.name for stage in OPERATIONS["change"]]
    assert share(changes, ranked[0]) > 1.5 * share(changes, ranked[1]) > 0
    assert share(changes, ranked[0]) > 5 * share(changes, ranked[-1]) > 0


@pytest.mark.parametrize("field", ["count", "tests"])
def test_counts_below_one_are_refused(field):
    arguments = {"count": 1, "tests": 1, field: 0}
    with pytest.raises(InvalidValueError, match=f"{field}: must be at least 1, got 0"):
        next(generate_problems(arguments.pop("count"), seed=0, **arguments))


def test_every_reference_pipeline_passes_its_own_tests():
    made = list(generate_problems(40, seed=8, tests=4))
    jobs = [Job(p.pipeline.source, p.problem.tests) for p in made]
    with Verifier(workers=2, time_limit=2.0) as verifier:
        verdicts = verifier.verify_many(jobs)
    assert [verdict.reward for verdict in verdicts] == [1.0] * len(made)


NONE = {"same_category": 0.0, "any_stage": 0.0, "drop": 0.0, "delete": 0.0}


def spoilt(many, **noise):
    """Return (reference source, spoilt program) pairs under the given kinds of noise alone."""
    rng = random.Random(0)
    settings = Noise(**{**NONE, **noise})
    return [(p.pipeline, p.noisy(rng, settings)) for p in many]


def test_without_noise_the_solution_is_the_reference(many):
    assert all(pipeline.source == program for pipeline, program in spoilt(many))


def test_deleting_takes_one_character_as_often_as_configured(many):
    pairs = spoilt(many, delete=0.5)
    shorter = [len(pipeline.source) - len(program) for pipeline, program in pairs]
    assert set(shorter) == {0, 1}
    assert sum(shorter) / len(shorter) == pytest.approx(0.5, abs=0.05)


def test_dropping_takes_one_stage_as_often_as_configured(many):
    pairs = spoilt(many, drop=0.15)
    fewer = [pipeline.source.count("\n") - program.count("\n") for pipeline, program in pairs]
    assert set(fewer) == {0, 1}
    assert sum(fewer) / len(fewer) == pytest.approx(0.15, abs=0.03)
    assert all(program.startswith(READ) for _, program in pairs)


def test_replacing_within_the_category_keeps_the_categories(many):
    category = {s.line: s.category for g in (*OPERATIONS.values(), ANSWERS) for s in g}
    changed = Counter()
    for pipeline, program in spoilt(many, same_category=1.0):
        lines = program.removeprefix(READ).splitlines(keepends=True)
        assert [category[line] for line in lines] == [s.category for s in pipeline.stages]
        changed.update(a != b.line for a, b in zip(lines, pipeline.stages, strict=True))
    assert share(changed, True) == pytest.approx(1 - 1 / 8.6, abs=0.03)  # the draw may hit itself


def test_replacing_by_any_stage_happens_as_often_as_configured(many):
    stages = sum(len(group) for group in OPERATIONS.values()) + len(ANSWERS)
    changed = Counter()
    for pipeline, program in spoilt(many, any_stage=0.2):
        lines = program.removeprefix(READ).splitlines(keepends=True)
        changed.update(a != b.line for a, b in zip(lines, pipeline.stages, strict=True))
    assert share(changed, True) == pytest.approx(0.2 * (1 - 1 / stages), abs=0.03)
