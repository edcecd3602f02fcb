"""The size of the advantages: one factor for all groups, from their method or a running mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import DataError
from maxatk.objectives import METHODS, Method, advantages
from maxatk.objectives.objective import DECAY, SCALES, AdvantageScale

WITH_A_SCALE = ("grpo", "bon_mean", "bon_off_policy")
SUMMED = ("bon_max_mean", "bon_max_second", "bon_loo1", "bon_off_policy_exact")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", WITH_A_SCALE)
def test_a_method_with_a_scale_of_its_own_is_not_scaled_again(method, scale):
    own_scale = AdvantageScale(scale, METHODS[method])
    own_scale.observe(np.array([[1.0, -3.0]]))
    assert own_scale.factor(16) == 1


@pytest.mark.parametrize("method", SUMMED)
def test_credits_that_are_summed_are_multiplied_by_the_size_of_a_group(method):
    assert AdvantageScale("mean", METHODS[method]).factor(16) == 16
    assert AdvantageScale("sum", METHODS[method]).factor(16) == 1
    assert AdvantageScale("mean", Method(credit="reward", baseline="mean")).factor(16) == 1


@given(
    rewards=st.lists(
        st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=6
    ).filter(lambda rows: any(len(set(row)) > 1 for row in rows)),
    unit=st.sampled_from([1e-300, 1e-3, 1.0, 250.0, 1e300]),
)
def test_a_batch_scale_is_blind_to_the_unit_and_gives_no_prompt_a_weight(rewards, unit):
    scaled = []
    for factor in (1.0, unit):
        raw = advantages(factor * np.array(rewards, dtype=float), "bon_loo1", 2)
        scale = AdvantageScale("batch", METHODS["bon_loo1"])
        scale.observe(raw)
        scaled.append(scale.factor(3) * raw)
        assert scale.factor(99) == scale.factor(3)
        signal = scaled[-1][(scaled[-1] != 0).any(axis=1)]
        assert np.sqrt((signal**2).mean()) == pytest.approx(1.0)
    np.testing.assert_allclose(scaled[0], scaled[1], rtol=1e-9)


@given(powers=st.lists(st.integers(-1000, 1000), min_size=1, max_size=5))
def test_a_running_scale_does_not_overflow_between_rollout_batches(powers):
    scale = AdvantageScale("batch", METHODS["bon_loo1"])
    for power in powers:
        scale.observe(np.ldexp([[-3.0, 4.0]], power))
    shares = [(1 - DECAY) * DECAY**age for age in reversed(range(len(powers)))]
    # 1 / factor**2 is the weighted mean of 12.5 * 4**power, here in units of the largest.
    top = max(powers)
    square = 12.5 * sum(s * 4.0 ** (p - top) for s, p in zip(shares, powers, strict=True))
    want = np.sqrt(sum(shares) / square)
    assert np.ldexp(scale.factor(2), top) == pytest.approx(want)


def test_groups_without_a_signal_leave_the_batch_scale_alone():
    scale = AdvantageScale("batch", METHODS["bon_loo1"])
    scale.observe(np.zeros((2, 4)))
    assert scale.factor(4) == 1.0
    scale.observe(np.array([[0.0, 0.0], [3.0, 4.0]]))
    before = scale.factor(2)
    assert before == pytest.approx(1 / np.sqrt(12.5))
    scale.observe(np.zeros((2, 4)))
    assert scale.factor(2) == before


@pytest.mark.parametrize(
    "text", ["{}", '{"root_mean_square": 1}', '{"root_mean_square": "1", "weight": 1}']
)
def test_a_damaged_file_of_the_running_scale_is_named(tmp_path, text):
    (tmp_path / "advantage_scale.json").write_text(text)
    with pytest.raises(DataError, match=r"advantage_scale\.json: must hold a root_mean_square"):
        AdvantageScale("batch", METHODS["bon_loo1"]).load(tmp_path)
