"""The committed values of single problems give the numbers of a study again."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from committed.front import differences_from_the_rivals, held_out, values_of
from committed.results import ROOT, SHOWN, STUDIES

VALUED = [name for name in STUDIES if (ROOT / "docs" / "study" / name / "problems.csv").exists()]


def mean_and_interval(differences, seeds):
    """Return a mean of single problems with Student's t: over seeds, or problems of two or one."""
    by_seed = differences.groupby(seeds).mean()
    units = differences if len(by_seed) < 3 else by_seed
    return units.mean(), *stats.ttest_1samp(units, 0).confidence_interval(0.95)


@pytest.mark.parametrize("name", VALUED)
def test_the_values_of_single_problems_give_the_numbers_of_a_study_again(fill, name):
    study = fill.load(name)
    table = pd.read_csv(fill.DOCS / name / "problems.csv")
    in_order = table[table.metric == "max@k"].sort_values(["seed", "problem"])
    of_model = {model: rows.reset_index() for model, rows in in_order.groupby("model")}
    assert set(of_model) == set(study.models)
    for model, rows in of_model.items():
        for k, cell in study.models[model]["metrics"]["max@k"].items():
            assert rows[k].mean() == pytest.approx(cell["mean"], abs=SHOWN), (model, k)
    tests = [test for test in (*study.differences, *study.pairs) if test.measure.metric == "max@k"]
    assert len(tests) >= 4  # of one trained model and the base at four k
    for test in tests:
        first = of_model[test.first]
        second = of_model[test.second]
        assert list(first.problem) == list(second.problem)
        k = str(test.measure.k)
        computed = mean_and_interval(first[k] - second[k], first.seed)
        assert computed == pytest.approx((test.difference, test.low, test.high), abs=2 * SHOWN)


@pytest.mark.long
def test_the_front_is_what_the_values_of_single_problems_give(fill):
    study = fill.load("front")
    values = values_of(fill, "front")
    methods = {name: model["levels"].get("method") for name, model in study.models.items()}
    for best in study.front.best:
        names = [name for name, method in methods.items() if method == best.method]
        rows = held_out(values, names, study.seeds, aim=str(best.aim))
        assert tuple(rows.model.groupby("seed").first()) == best.by_seed
        for estimate in best.estimates:
            column = rows[str(estimate.k)]
            assert column.groupby("seed").mean().mean() == pytest.approx(estimate.mean, abs=SHOWN)
    for test in study.front.beyond:
        differences = differences_from_the_rivals(fill, aim=str(test.aim), floor=test.floor - SHOWN)
        by_seed = differences.groupby("seed").mean()
        # Nadeau and Bengio's variance: every seed has a part in the choices of the others.
        seeds = len(by_seed)
        error = stats.sem(by_seed) * np.sqrt(1 + seeds / (seeds - 1))
        mean = by_seed.mean()
        computed = mean, *stats.t.interval(0.95, seeds - 1, loc=mean, scale=error)
        assert computed == pytest.approx((test.difference, test.low, test.high), abs=2 * SHOWN)
