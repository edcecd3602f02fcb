"""Wrong arguments are refused with the field, the value and what is allowed."""

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.objectives import (
    METHODS,
    Method,
    OrderWeights,
    advantages,
    distinct_at_k,
    effective_sample_size,
    majority_at_k,
    max_at_k,
    method_of,
    order_at_k,
    pass_at_k,
)
from oracles import PAPER

REWARDS = np.array([[0.0, 1.0, 0.5, 0.25]])

ADVANTAGES = {
    "k above n": ({"k": 5}, "k: must be at most the number of samples, got k=5 with 4 samples"),
    "k zero": ({"k": 0}, "k: must be an integer >= 1, got 0"),
    "k fractional": ({"k": 2.5}, "k: must be an integer >= 1, got 2.5"),
    "k bool": ({"k": True}, "k: must be an integer >= 1, got True"),
    "method": (
        {"method": "bon_lo1"},
        "method: unknown value 'bon_lo1'; .*did you mean 'bon_loo1'",
    ),
    "form": (
        {"form": "pppo"},
        "form: unknown value 'pppo'; allowed: ppo, reinforce; did you mean",
    ),
    "clamp": ({"clamp": -1}, "clamp: must be a number >= 0 or None, got -1"),
    "ratio shape": (
        {"log_ratios": [0.0] * 4},
        r"log_ratios: must have the shape of the rewards \(1, 4\), got \(4,\)",
    ),
    "ratio nan": ({"log_ratios": [[0, np.nan, 0, 0]]}, "log_ratios: must be finite, got nan"),
    "ratio text": ({"log_ratios": [["x"] * 4]}, "log_ratios: must be an array of numbers"),
    "overflow": (
        {"method": "bon_off_policy_exact", "log_ratios": [[600.0] * 4], "clamp": None},
        "advantages: overflow; rewards or log_ratios are too large",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), ADVANTAGES.values(), ids=ADVANTAGES)
def test_advantages_refuses(arguments, text):
    with pytest.raises(InvalidValueError, match=text):
        advantages(REWARDS, **arguments)


NO_NUMBERS = {
    "texts": [["1", "2"]],
    "a text among numbers": [["1", 2.0]],
    "an object array of texts": np.array([["1", 2.0]], dtype=object),
    "bytes": [[b"1", b"2"]],
    "dates": np.array([["2026-01-01", "2026-01-02"]], dtype="datetime64[D]"),
    "times": np.array([[1, 2]], dtype="timedelta64[s]"),
    "complex": [[1 + 0j, 2j]],
    "complex objects": np.array([[np.complex128(1), 2.0]], dtype=object),
    "an integer without end": [[10**400, 1]],
}


@pytest.mark.parametrize("rewards", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.parametrize("call", [advantages, max_at_k])
def test_what_is_no_number_is_refused(call, rewards):
    with pytest.raises(InvalidValueError, match="rewards: must be an array of numbers"):
        call(rewards, k=1)


def test_weights_that_are_all_zero_are_refused():
    for make in (lambda: OrderWeights((0.0, 0.0)), lambda: OrderWeights.mixture({1: 0.0, 3: 0.0})):
        with pytest.raises(InvalidValueError, match="weights: must not all be 0"):
            make()


def test_weights_that_vanish_in_a_large_group_give_zero():
    tiny = OrderWeights.mixture({2: 5e-324})
    np.testing.assert_array_equal(order_at_k(np.ones((1, 64)), tiny), [0.0])


def test_results_beyond_floats_are_refused():
    with pytest.raises(InvalidValueError, match="rewards: too large"):
        order_at_k([[1e308] * 4], OrderWeights.harmonic())


def test_a_mean_of_rounding_is_no_mean_to_divide_by():
    np.testing.assert_array_equal(advantages([[0.1, 0.2, -0.3]], "max_rl"), np.zeros((1, 3)))
    small = np.array([[1.0, -1.0 + 1e-12]])
    assert np.abs(advantages(small, "max_rl")).max() > 1e11


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_a_spread_of_rounding_is_no_spread_to_divide_by(unit):
    of_parts = [0.7 + 0.2 + 0.1, 0.1 + 0.2 + 0.7]  # both are 1, but for rounding
    assert of_parts[0] < of_parts[1]
    rewards = unit * np.array([of_parts * 2])
    selection = [[3.0, 2.0, 1.0, 0.0]]
    for scores in (None, selection):
        values = advantages(rewards, "pass_at_k_training", k=2, selection=scores)
        np.testing.assert_array_equal(values, np.zeros((1, 4)))
    small = unit * np.array([[1.0, 1.0, 1.0, 1.0 + 1e-12]])
    assert advantages(small, "pass_at_k_training", k=2).max() > 0.5


def test_rewards_are_checked():
    for shape in ((4,), (1, 2, 2), (3, 0)):
        with pytest.raises(InvalidValueError, match=r"must have shape \(prompts, samples\)"):
            advantages(np.zeros(shape), k=1)
    for function in (advantages, max_at_k):
        with pytest.raises(InvalidValueError, match="rewards: must be finite, or NaN"):
            function([[0.0, np.inf]], k=1)
        with pytest.raises(InvalidValueError, match="rewards: must be an array of numbers"):
            function([["a", 1.0], [2.0, 3.0]], k=1)


def test_metrics_refuse():
    with pytest.raises(InvalidValueError, match="got k=5 with 4 samples"):
        max_at_k(REWARDS, [1, 5])
    with pytest.raises(InvalidValueError, match=r"k: must be an integer >= 1, got 1\.0"):
        max_at_k(REWARDS, 1.0)
    with pytest.raises(InvalidValueError, match="last axis of samples"):
        max_at_k(1.0, 1)
    with pytest.raises(InvalidValueError, match="got k=5 with 4 samples"):
        pass_at_k([10, 4], [1, 1], 5)
    with pytest.raises(InvalidValueError, match="num_correct: must lie between 0 and num_samples"):
        pass_at_k(4, 5, 1)
    with pytest.raises(InvalidValueError, match=r"num_samples: must be integers, got 4\.5"):
        pass_at_k(4.5, 1, 1)
    with pytest.raises(InvalidValueError, match="k: must be an integer >= 1, got 0"):
        pass_at_k(4, 1, 0)
    with pytest.raises(InvalidValueError, match="the shapes do not broadcast"):
        pass_at_k([1, 2], [1, 2, 3], 1)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_an_infinite_reward_is_shown_as_it_is(wrong):
    with pytest.raises(InvalidValueError, match=f"rewards: must be finite, .* got {wrong}"):
        advantages([[0.0, wrong, 1.0]], k=2)


def test_effective_sample_size_refuses():
    with pytest.raises(InvalidValueError, match="log_ratios: must have shape"):
        effective_sample_size([0.0], 1)
    with pytest.raises(InvalidValueError, match="got k=3 with 2 samples"):
        effective_sample_size([[0.0, 0.0]], 3)
    with pytest.raises(InvalidValueError, match="log_ratios: must be finite, got inf"):
        effective_sample_size([[0.0, np.inf]], 1)


METHOD_FIELDS = {
    "unknown": ({"credit": "rewards"}, "Method.credit: unknown value 'rewards'; .*mean 'reward'"),
    "corrected best": (
        {"credit": "best", "correction": "exact", "baseline": "mean"},
        "Method.correction: 'exact' does not go with the credit 'best'; allowed with it: 'none'",
    ),
    "pair": (
        {"credit": "max_at_k", "baseline": "second_best"},
        "'second_best' does not go with the credit 'max_at_k' .*; allowed with it: 'none', 'mean'",
    ),
    "constant": (
        {"credit": "max_at_k", "baseline": "constant"},
        "'constant' does not go with the credit 'max_at_k' and the correction 'none'",
    ),
    "temperature": (
        {"credit": "max_at_k", "baseline": "remove_one", "inverse_temperature": 2.0},
        "Method.inverse_temperature: must be 1 with the credit 'max_at_k', which has no use for it",
    ),
    "scale": ({"credit": "reward", "scale": "var"}, "Method.scale: unknown value 'var'; allowed"),
}


@pytest.mark.parametrize(("fields", "text"), METHOD_FIELDS.values(), ids=METHOD_FIELDS)
def test_method_refuses(fields, text):
    with pytest.raises(InvalidValueError, match=text):
        Method(**fields)


WEIGHTS = {
    "empty": (lambda: OrderWeights(()), "weights: must be a sequence of at least one number"),
    "nan": (lambda: OrderWeights((1.0, float("nan"))), "weights: must be finite, got nan"),
    "text": (lambda: OrderWeights(("a",)), "weights: must be numbers, got"),
    "uneven pairs": (
        lambda: OrderWeights(maxima=[(1, 2), (3,)]),
        "maxima: must be a list of pairs",
    ),
    "no pairs": (lambda: OrderWeights(maxima=5), "maxima: must be a list of pairs .*, got 5"),
    "rank": (lambda: OrderWeights(by_rank="yes"), "by_rank: must be True or False, got 'yes'"),
    "k": (lambda: OrderWeights.max(0), "k: must be an integer >= 1, got 0"),
    "top": (lambda: OrderWeights.top(3, of=2), "top: must be from 1 to of=2, got 3"),
    "quantile": (lambda: OrderWeights.quantile(1.5, of=2), "quantile: must be from 0 to 1"),
    "share": (lambda: OrderWeights.cvar(0, of=2), "cvar: must be above 0 and at most 1, got 0"),
    "tail": (lambda: OrderWeights.cvar(0.5, of=2, tail="uper"), "did you mean 'upper'"),
    "mixture": (lambda: OrderWeights.mixture({}), "mixture: must map each k to its share, got {}"),
    "share of k": (lambda: OrderWeights.mixture({2: float("inf")}), "weights: must be finite"),
    "k of a share": (lambda: OrderWeights.mixture({0: 1.0}), "k: must be an integer >= 1, got 0"),
    "upto": (lambda: OrderWeights.any_k(1.5), "upto: must be an integer >= 1, got 1.5"),
    "metric": (lambda: order_at_k(REWARDS, OrderWeights.min(5)), "got k=5 with 4 samples"),
    "no weights": (lambda: order_at_k(REWARDS, 3), "weights: must be OrderWeights, got 3"),
    "credit": (
        lambda: Method(credit=3),
        "Method.credit: must be a name, OrderWeights or a function, got 3",
    ),
}


@pytest.mark.parametrize(("made", "text"), WEIGHTS.values(), ids=WEIGHTS)
def test_wrong_weights_are_refused(made, text):
    with pytest.raises(InvalidValueError, match=text):
        made()


def test_the_methods_of_the_paper_are_in_the_table():
    assert set(METHODS) >= set(PAPER)
    assert all(method.source for method in METHODS.values())


def test_a_method_of_a_mapping():
    cvar = {"credit": {"cvar": 0.25, "of": 4, "tail": "lower"}, "baseline": "replace_one"}
    weights = OrderWeights.cvar(0.25, of=4, tail="lower")
    assert method_of(cvar) == Method(credit=weights, baseline="replace_one")
    mixed = {"credit": {"mixture": {1: 0.5, 4: 0.5}}, "baseline": "leave_one_out"}
    assert method_of(mixed).credit == OrderWeights.mixture({1: 0.5, 4: 0.5})
    assert method_of({"credit": {"weights": [0, 1]}, "baseline": "mean"}).credit.values == (0, 1)
    assert method_of({"credit": {"harmonic": None}, "baseline": "mean"}).credit.by_rank
    entropic = {"credit": {"entropic": 4.0}, "baseline": "remove_one"}
    assert method_of(entropic).inverse_temperature == 4.0
    named = {"credit": "max_at_k", "baseline": "mean", "scale": "std"}
    assert method_of(named) == Method(credit="max_at_k", baseline="mean", scale="std")
    assert method_of("grpo") is METHODS["grpo"]
    assert method_of(METHODS["grpo"]) is METHODS["grpo"]


MAPPINGS = {
    "key": ({"credits": "max"}, "method: unknown value 'credits'; .*did you mean 'credit'"),
    "no credit": ({"baseline": "mean"}, "method: the key 'credit' is required"),
    "no baseline": ({"credit": "reward"}, "method: the key 'baseline' is required"),
    "maker": ({"credit": {"cva": 1}, "baseline": "mean"}, "method.credit: .*did you mean 'cvar'"),
    "two": ({"credit": {"max": 1, "min": 1}, "baseline": "mean"}, "unknown value 'max, min'"),
    "of": ({"credit": {"cvar": 1}, "baseline": "mean"}, "'cvar' needs the key 'of'"),
    "more": ({"credit": {"max": 1, "of": 2}, "baseline": "mean"}, "method.credit.max: .*'of'"),
    "value": ({"credit": {"max": 0}, "baseline": "mean"}, "k: must be an integer >= 1, got 0"),
    "beta": (
        {"credit": {"entropic": -1}, "baseline": "mean"},
        "inverse_temperature: must be a finite number above 0, got -1",
    ),
    "number": (3, "method: unknown value 3; allowed: "),
}


@pytest.mark.parametrize(("setting", "text"), MAPPINGS.values(), ids=MAPPINGS)
def test_wrong_mappings_are_refused(setting, text):
    with pytest.raises(InvalidValueError, match=text):
        method_of(setting)


@pytest.mark.parametrize("metric", [majority_at_k, distinct_at_k])
def test_metrics_of_answers_need_them(metric):
    with pytest.raises(InvalidValueError, match="answers: must have the shape of the rewards"):
        metric(REWARDS, None, 2)
