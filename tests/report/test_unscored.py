import copy

import pytest

from maxatk.report import write_report
from maxatk.report.run_tables import unscored_warnings
from maxatk.report.runs import load_comparison


@pytest.fixture
def lacking(results):
    """Return a function: the results of a run in which these problems lack half of their scores."""

    def change(name, rows):
        changed = copy.deepcopy(results[name])
        for row in rows:
            changed["per_problem"]["scored"][row] = 64
        changed["counts"]["unscored"] = 64 * len(rows)
        return changed

    return change


def test_a_model_that_lacks_verdicts_where_the_other_does_not_is_named(lacking, results, tmp_path):
    runs = {"base": results["base"], "hard": lacking("sharp", range(0, 30, 2))}
    (warning,) = unscored_warnings(load_comparison(runs))
    assert warning.startswith(
        "base has 0.0% of its samples unscored and hard has 25.0% of its samples unscored: "
        "not by chance (p <0.001)"
    )
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert warning.replace("<", "&lt;") in page


def test_the_same_share_in_other_problems_is_chance(lacking):
    runs = {"base": lacking("base", range(0, 30, 2)), "x": lacking("sharp", range(1, 30, 2))}
    assert unscored_warnings(load_comparison(runs)) == []


def test_a_few_lost_samples_are_chance(results, make, tmp_path):
    runs = {"base": results["base"], "x": make(5, 0.1, 0.1, unscored=3)}
    assert unscored_warnings(load_comparison(runs)) == []
    assert 'id="unscored-differs"' not in write_report(runs, tmp_path / "r.html").read_text()


def test_nothing_missing_is_nothing_to_warn_of(results):
    assert unscored_warnings(load_comparison(results)) == []
    assert unscored_warnings(load_comparison({"base": results["base"]})) == []


def test_every_pair_that_differs_is_named(lacking, results):
    runs = {
        "base": results["base"],
        "x": lacking("sharp", range(20)),
        "y": lacking("same", range(20)),
    }
    found = unscored_warnings(load_comparison(runs))
    assert [warning.split(" ")[0] for warning in found] == ["base", "base"]
