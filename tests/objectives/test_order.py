"""L-statistics by their textbook definitions, over all subsets."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.objectives import (
    METHODS,
    Method,
    OrderWeights,
    advantages,
    influence,
    method_of,
    order_at_k,
)
from maxatk.objectives.setting import setting_of

REWARDS = np.random.default_rng(2).normal(size=(2, 7)).round(1)


def gini(values):
    return np.mean([abs(a - b) for a, b in itertools.combinations(values, 2)])


def l_moment(values):
    """The r-th of r values, by its definition as an alternating mean of order statistics."""
    r = len(values)
    ascending = sorted(values)
    pascal = np.polynomial.polynomial.polypow([-1, 1], r - 1)
    return pascal @ ascending / r


def harrell_davis(q):
    return lambda values: float(stats.mstats.hdquantiles(values, [q])[0])


def trimmed(m):
    return lambda values: np.mean(sorted(values)[m : len(values) - m])


def winsorised(m):
    return lambda values: np.mean(np.clip(values, np.sort(values)[m], np.sort(values)[-m - 1]))


# credit of a recipe, k, the statistic of k samples
ROWS = {
    "trimmed": ({"trimmed": 1, "of": 5}, 5, trimmed(1)),
    "trimmed to one": ({"trimmed": 2, "of": 5}, 5, trimmed(2)),
    "winsorised": ({"winsorised": 1, "of": 5}, 5, winsorised(1)),
    "winsorised to two": ({"winsorised": 2, "of": 6}, 6, winsorised(2)),
    "winsorised to one": ({"winsorised": 1, "of": 3}, 3, winsorised(1)),
    "Harrell-Davis": ({"harrell_davis": 0.5, "of": 4}, 4, harrell_davis(0.5)),
    "Harrell-Davis, low": ({"harrell_davis": 0.05, "of": 3}, 3, harrell_davis(0.05)),
    "Harrell-Davis, high": ({"harrell_davis": 0.9, "of": 6}, 6, harrell_davis(0.9)),
    "Gini of 2": ({"gini": 2}, 2, gini),
    "Gini of 5": ({"gini": 5}, 5, gini),
    "mean": ({"l_moment": 1}, 1, l_moment),
    "half of Gini": ({"l_moment": 2}, 2, lambda values: gini(values) / 2),
    "L-skewness": ({"l_moment": 3}, 3, l_moment),
    "L-kurtosis": ({"l_moment": 4}, 4, l_moment),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_metric_is_the_mean_of_the_statistic_over_all_subsets(name):
    credit, k, statistic = ROWS[name]
    method = method_of({"credit": credit, "baseline": "leave_one_out"})
    want = [np.mean([statistic(s) for s in itertools.combinations(row, k)]) for row in REWARDS]
    np.testing.assert_allclose(order_at_k(REWARDS, method.credit), want, atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_the_advantages_are_those_of_the_statistic_over_all_subsets(name):
    credit, k, statistic = ROWS[name]
    method = method_of({"credit": credit, "baseline": "leave_one_out"})
    want = influence(statistic, REWARDS, k=k)
    np.testing.assert_allclose(advantages(REWARDS, method), want, atol=1e-12)


def test_the_weights_of_many_samples_are_those_of_the_beta_distribution():
    for k, q in ((2000, 0.5), (2000, 0.999), (300, 0.01)):
        edges = stats.beta.cdf(np.arange(k + 1) / k, (k + 1) * q, (k + 1) * (1 - q))
        weights = OrderWeights.harrell_davis(q, of=k).values
        np.testing.assert_allclose(weights, np.diff(edges), atol=1e-13)


def test_gini_is_one_statistic_for_every_k():
    rows = [Method(credit=OrderWeights.gini(k), baseline="remove_one") for k in (2, 4, 6)]
    first, *others = [advantages(REWARDS, row) for row in rows]
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-14)


@pytest.mark.parametrize(
    ("credit", "message"),
    [
        ({"trimmed": 2, "of": 4}, "trimmed: must leave one of=4 samples or more, got 2"),
        ({"winsorised": 0, "of": 4}, "winsorised: must be an integer >= 1, got 0"),
        ({"harrell_davis": 1, "of": 4}, "harrell_davis: must be above 0 and below 1, got 1"),
        ({"harrell_davis": 0.5}, "'harrell_davis' needs the key 'of'"),
        ({"gini": 1}, "gini: must be an integer >= 2, got 1"),
        ({"l_moment": 0}, "r: must be an integer >= 1, got 0"),
    ],
)
def test_what_has_no_weights_is_refused(credit, message):
    with pytest.raises(InvalidValueError, match=message):
        method_of({"credit": credit, "baseline": "remove_one"})


def test_pairs_of_k_and_share_are_checked():
    weights = OrderWeights(maxima=[[1, 0.25], [3, 0.75]])
    assert weights == OrderWeights.mixture({1: 0.25, 3: 0.75})
    assert (
        advantages(REWARDS, Method(credit=weights, baseline="replace_one")).shape == REWARDS.shape
    )
    for k in (0, 1.5):
        with pytest.raises(InvalidValueError, match=f"k: must be an integer >= 1, got {k}"):
            OrderWeights(maxima=((k, 1.0),))


@pytest.mark.parametrize(
    "row",
    [
        *METHODS.values(),
        Method(credit=OrderWeights.cvar(0.25, of=4), baseline="replace_one", source="me"),
        Method(credit=OrderWeights.mixture({2: 0.5, 4: -0.5}), baseline="leave_one_out"),
        Method(credit=OrderWeights.harmonic(), baseline="replace_one"),
        Method(credit="entropic", baseline="remove_one", inverse_temperature=3.0),
        Method(credit="max_at_k", correction="exact", baseline="leave_one_out", source="me"),
    ],
    ids=repr,
)
def test_the_setting_of_a_method_gives_the_method_after_json(row):
    setting = setting_of(row)
    assert method_of(json.loads(json.dumps(setting))) == row
    assert setting_of(setting) == setting


def test_a_method_of_the_table_is_its_name_and_weights_within_a_mapping_are_written_out():
    assert [setting_of(row) for row in METHODS.values()] == list(METHODS)
    assert setting_of(Method(credit="reward", baseline="mean")) == "dr_grpo"
    of_objects = {"credit": OrderWeights.top(1, of=2), "baseline": "mean"}
    assert setting_of(of_objects) == {"credit": {"weights": [0.0, 1.0]}, "baseline": "mean"}
    of_arrays = {"credit": {"weights": np.array([0.0, 1.0])}, "baseline": "mean"}
    assert setting_of(of_arrays) == setting_of(of_objects)


def test_the_keys_of_a_mixture_may_be_those_of_json():
    setting = {"credit": {"mixture": {2: 0.5, 4: 0.5}}, "baseline": "leave_one_out"}
    assert method_of(json.loads(json.dumps(setting))) == method_of(setting)
    for keys, message in (
        ((2, "2"), "mixture: has k=2 twice"),
        (("two",), "k: must be an integer >= 1, got 'two'"),
        (("-2",), "k: must be an integer >= 1, got '-2'"),
    ):
        setting = {"credit": {"mixture": dict.fromkeys(keys, 0.5)}, "baseline": "leave_one_out"}
        with pytest.raises(InvalidValueError, match=message):
            method_of(setting)
