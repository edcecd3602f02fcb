"""A statistic of one's own as a method: by name, by file, with answers, and what is refused."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.objectives import Method, advantages, influence, method_of
from maxatk.objectives.objective import Objective
from oracles import policies

FILE = Path(__file__).parents[2] / "examples" / "set_objectives.py"
REWARDS = np.random.default_rng(3).random((3, 6))
ANSWERS = [list("aabbcd"), list("aaaaaa"), list("abcdef")]


def by_hand(statistic, rewards, answers, k):
    """The mean over all k-subsets that hold i of statistic - mean over replacing i, times k/n."""
    samples = list(zip(rewards, answers, strict=True))
    result = np.zeros(len(samples))
    subsets = list(itertools.combinations(range(len(samples)), k))

    def of(places):
        return statistic([samples[j][0] for j in places], [samples[j][1] for j in places])

    for subset, i in itertools.product(subsets, range(len(samples))):
        if i in subset:
            rest = [j for j in subset if j != i]
            replaced = [of([*rest, other]) for other in rest]
            result[i] += (of(subset) - np.mean(replaced)) / len(subsets)
    return result


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("name", ["poly_epo", "set_po"])
def test_the_examples_have_the_advantages_of_their_definition(name, k):
    method = method_of({"statistic": f"{FILE}:{name}"})
    assert method.credit_row.needs_answers
    table = advantages(REWARDS, method, k, answers=ANSWERS)
    for row, rewards, answers in zip(table, REWARDS, ANSWERS, strict=True):
        np.testing.assert_allclose(row, by_hand(method.credit, rewards, answers, k), atol=1e-14)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_maximum_by_its_name_is_bon_loo1(k):
    method = method_of({"statistic": "builtins:max"})
    assert not method.credit_row.needs_answers
    rewards = [[0.5, np.nan, 0.0, 1.0, 0.25, 0.25], [0.5] * 6, [1.0, 0.0, np.nan, 0.5, 0.5, 0.0]]
    want = advantages(rewards, "bon_loo1", k)
    np.testing.assert_allclose(advantages(rewards, method, k), want, atol=1e-15)
    objective = Objective(method={"statistic": "builtins:max"}, k=k)
    assert objective.problems(6) == []
    np.testing.assert_array_equal(
        objective.advantages(np.array(rewards), k, log_ratios=None), advantages(rewards, method, k)
    )


def test_drawn_subsets_favour_no_rank_of_the_rewards():
    # 3432 subsets, of which 256 are drawn: in the order of the samples, whatever the rewards are.
    rewards = np.random.default_rng(4).permutation(14)[None] / 14
    method = Method(credit=max, baseline="leave_one_out")
    np.testing.assert_array_equal(advantages(rewards, method, 7), influence(max, rewards, k=7))


def test_the_advantages_are_unbiased_for_the_gradient_of_the_statistic():
    values = np.array([-0.5, 0.25, 1.0])
    logits = np.array([0.2, -0.3, 0.4])
    p = policies.softmax(logits)
    n = 4
    k = 3
    method = Method(credit=lambda rewards: np.var(rewards), baseline="leave_one_out")
    groups = np.array(list(itertools.product(range(3), repeat=n)))
    weights = advantages(values[groups], method, k)
    scores = np.eye(3)[groups] - p
    estimate = np.einsum("p,pi,pia->a", p[groups].prod(axis=1), weights, scores)
    sets = np.array(list(itertools.product(range(3), repeat=k)))
    gradient = np.einsum(
        "p,p,pia->a", p[sets].prod(axis=1), values[sets].var(axis=1), np.eye(3)[sets] - p
    )
    np.testing.assert_allclose(estimate, gradient, atol=1e-14)


def of(answer):
    return Method(credit=lambda rewards: answer, baseline="leave_one_out")


REFUSED = {
    "file": (lambda: method_of({"statistic": "no.py:f"}), "statistic: 'no.py' does not exist"),
    "no name": (
        lambda: method_of({"statistic": "set_objectives.py"}),
        "must be module:function or file.py:function, got 'set_objectives.py'",
    ),
    "name": (lambda: method_of({"statistic": "builtins:maxx"}), "did you mean 'max'"),
    "key": (lambda: method_of({"statistic": "builtins:max", "k": 2}), "unknown value 'k'"),
    "baseline": (lambda: Method(credit=max, baseline="mean"), "allowed with it: 'leave_one_out'"),
    "scale": (
        lambda: Method(credit=max, baseline="leave_one_out", scale="std"),
        "allowed with it: 'none'",
    ),
    "k": (lambda: advantages(REWARDS, of(1.0), 7), "got k=7 with 6 samples"),
    "text": (lambda: advantages(REWARDS, of("1"), 2), "returns: must be a finite number, got '1'"),
    "nan": (lambda: advantages(REWARDS, of(np.nan), 2), "must be a finite number, got nan"),
    "complex": (
        lambda: advantages(REWARDS, of(np.complex128(1j)), 2),
        "must be a finite number, got np.complex128",
    ),
    "integer": (lambda: advantages(REWARDS, of(10**400), 2), "must be a finite number, got 1000"),
    "long": (
        lambda: advantages(REWARDS, of(10**5000), 2),
        "must be a finite number, got a value of type int",
    ),
    "answers": (
        lambda: advantages(REWARDS, method_of({"statistic": f"{FILE}:poly_epo"}), 2),
        "answers: are needed by",
    ),
    "no function": (lambda: influence(3, [[1.0, 2.0]]), "statistic: must be a function of a list"),
    "no groups": (lambda: influence(max, [1.0, 2.0]), "rewards: must be groups of samples"),
    "a number": (lambda: influence(max, 5), "rewards: must be groups of samples, .* got 5"),
    "seed": (lambda: influence(max, REWARDS, k=2, seed="a"), "seed: must be an integer of 0 or"),
    "one sample": (lambda: influence(max, [[1.0]]), "there is none to replace it by"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_is_refused(call, message):
    with pytest.raises((InvalidValueError, MissingFileError), match=message):
        call()
