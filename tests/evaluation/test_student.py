import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.student import student_p, student_quantile


@given(st.floats(-50, 50), st.integers(1, 200))
def test_the_tails_are_those_of_scipy(t, df):
    # SciPy's own error is 2e-11 near t = 0, where the next test has the exact value.
    assert student_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), abs=1e-9)


@given(st.floats(-50, 50))
def test_one_degree_of_freedom_is_the_cauchy_distribution(t):
    assert student_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(abs(t)), abs=1e-15)


@given(st.floats(0.001, 0.999), st.integers(1, 60))
def test_the_quantiles_are_those_of_scipy(chance, df):
    assert student_quantile(chance, df) == pytest.approx(
        stats.t.ppf(chance, df), rel=1e-6, abs=1e-9
    )


def test_known_values():
    assert student_quantile(0.975, 4) == pytest.approx(2.776445, abs=1e-6)
    assert student_quantile(0.5, 3) == pytest.approx(0.0, abs=1e-12)
    assert student_p(1.0, 1) == pytest.approx(0.5)


def test_what_no_distribution_has_is_refused():
    with pytest.raises(InvalidValueError, match="df: must be at least 1, got 0"):
        student_p(1.0, 0)
    with pytest.raises(InvalidValueError, match=r"chance: must lie between 0 and 1, got 1\.0"):
        student_quantile(1.0, 3)
