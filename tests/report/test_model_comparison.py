import copy
import json

import numpy as np
import pandas as pd
import pytest

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.report import CompareOptions, compare
from maxatk.report.comparison_tables import table_of_tests
from maxatk.report.run_tables import scores_table
from maxatk.report.tables import change, three_decimals
from maxatk.statistics.intervals import mean_interval
from maxatk.statistics.significance import paired_difference, wilcoxon


def scored(compared):
    return scores_table(compared.comparisons, compared.measures, compared.stars)


def values(results, name, k, metric="max@k"):
    return np.array(results[name]["per_problem"][metric][str(k)], dtype=np.float64)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        (5, None, "results: a name must be printable text, got 5"),
        ("other", 5, "results: must be results, their object, or the path .*, got 5"),
        ("other", None, "results: must be results, their object, or the path .*, got None"),
        ("other", pd.DataFrame({"reward": [1]}), "of a data frame maxatk.evaluation.frame makes"),
    ],
)
def test_what_is_no_name_or_no_run_is_refused(results, name, source, message):
    with pytest.raises(InvalidValueError, match=message):
        compare({"base": results["base"], name: results["same"] if name == 5 else source})


def test_every_model_is_tested_against_the_baseline(results):
    compared = compare(results, CompareOptions(k=(1, 128), metric=("max@k", "pass@k")))
    assert compared.names == ["base", "sharp", "same"]
    assert [c.name for c in compared.measures] == ["max@1", "max@128", "pass@1", "pass@128"]
    assert len(compared.differences) == 8
    for test in compared.differences:
        metric = test.measure.metric
        k = test.measure.k
        pair = [values(results, name, k, metric) for name in (test.first, "base")]
        equal = (pair[0] == pair[1]).sum()
        assert (test.wilcoxon_p, test.zeros, test.problems) == (wilcoxon(*pair), equal, 30)
        expected = paired_difference(*(v[:, None] for v in pair))
        numbers = (test.difference, test.low, test.high, test.p)
        assert numbers == pytest.approx(
            (expected.mean[0], expected.low[0], expected.high[0], expected.p[0])
        )
    assert {t.significant for t in compared.differences} == {True, False}


def test_the_best_is_tested_against_all_others(results):
    tests = compare(results).leaders
    assert [(test.measure.k, test.first) for test in tests[:2]] == [(1, "sharp")] * 2
    assert {test.second for test in tests[:2]} == {"base", "same"}
    assert all(test.difference > 0 and test.significant for test in tests[:2])
    assert {test.measure.k for test in tests[2:]} == {128}
    significant = {test.second: test.significant for test in tests[2:]}
    assert significant.pop("sharp")
    assert list(significant.values()) == [False]


def test_the_scores_are_marked_as_in_the_paper(results):
    table = scored(compare(results))
    assert table.header == ("model", "max@1", "max@128")
    column = {row[0].text: row[1] for row in table.rows}
    best = results["sharp"]["metrics"]["max@k"]["1"]["mean"]
    assert column["sharp"].large == three_decimals(best) + "*"
    assert column["sharp"].mark == "best"
    assert sum(cell.mark == "second" for cell in column.values()) >= 1
    assert not any(row[2].starred for row in table.rows)


def test_tables_of_tests_show_their_numbers(results):
    compared = compare(results)
    for table, tests in (
        (table_of_tests("best − other", compared.leaders), compared.leaders),
        (table_of_tests("model − baseline", compared.differences), compared.differences),
    ):
        for row, test in zip(table.rows, tests, strict=True):
            assert row[0].text == f"{test.first} − {test.second}"
            assert row[2].text == change(test.difference)
            assert row[2].starred == test.significant
            assert int(row[5].text) == test.zeros


def test_the_direction_of_a_difference_is_marked(results):
    table = table_of_tests("model − baseline", compare(results).differences)
    rows = {(r[0].text, r[1].text): r[2].mark for r in table.rows}
    assert rows["sharp − base", "max@1"] == "above"
    assert rows["sharp − base", "max@128"] == "below"
    assert rows["same − base", "max@1"] == ""


def test_every_benchmark_has_a_verdict_of_its_own(results, make, tmp_path):
    for model, seed in (("base", 20), ("tuned", 30)):
        for number, name in enumerate(("cc", "lcb")):
            folder = tmp_path / model / name
            folder.mkdir(parents=True)
            result = make(seed + number, 0.1, 0.05, ids=[f"{name}{i}" for i in range(12)])
            (folder / "results.json").write_text(json.dumps(result))
    compared = compare(
        {"base": tmp_path / "base", "tuned": tmp_path / "tuned"}, CompareOptions(k=(8,))
    )
    assert [c.name for c in compared.measures] == ["cc max@8", "lcb max@8"]
    for name in ("cc", "lcb"):
        alone = compare({m: tmp_path / m / name for m in ("base", "tuned")}, CompareOptions(k=(8,)))
        (test,) = alone.leaders
        (result,) = (t for t in compared.leaders if t.measure.benchmark == name)
        assert (result.p, result.adjusted_p) == pytest.approx((test.p, test.adjusted_p))
    (tmp_path / "tuned" / "lcb" / "results.json").unlink()
    with pytest.raises(InvalidValueError, match=r"\['cc', 'lcb'\], 'tuned' has \['cc'\]"):
        compare({"base": tmp_path / "base", "tuned": tmp_path / "tuned"})
    (tmp_path / "tuned" / "cc" / "results.json").unlink()
    with pytest.raises(MissingFileError, match="and no folders of benchmarks"):
        compare({"base": tmp_path / "base", "tuned": tmp_path / "tuned"})


def test_other_problems_are_refused_unless_allowed(results, make):
    other = make(9, 0.1, 0.1, ids=["p<3>", "new", "p<1>"])
    pair = {"base": results["base"], "x": other}
    with pytest.raises(InvalidValueError, match=r"not over the same .* compares the 2 whose"):
        compare(pair)
    compared = compare(pair, CompareOptions(k=(8,), allow_other_problems=True))
    (test,) = compared.differences
    base = values(results, "base", 8)[[1, 3]]
    mine = np.array(other["per_problem"]["max@k"]["8"])[[2, 0]]
    assert test.problems == 2
    assert test.difference == pytest.approx(np.mean(mine - base))
    shown = compared.comparisons[""].baseline.metric("max@k", 8)
    expected = mean_interval(base[:, None])
    assert shown.mean == pytest.approx(base.mean(), abs=1e-6)
    assert shown.low == pytest.approx(expected.low[0], abs=1e-6)
    strangers = make(9, 0.1, 0.1, ids=["a", "b"])
    for allowed in (False, True):
        with pytest.raises(
            InvalidValueError, match="no problem in common, by the ids: the first is 'a' in 'x' and"
        ):
            compare(
                {"base": results["base"], "x": strangers},
                CompareOptions(allow_other_problems=allowed),
            )


def test_other_verifiers_are_refused_unless_allowed(results):
    strict = copy.deepcopy(results["same"])
    strict["manifest"]["settings"]["verifier"] = {"time_limit_s": 1.0}
    pair = {"base": results["base"], "strict": strict}
    with pytest.raises(InvalidValueError, match="'strict' was verified with"):
        compare(pair)
    assert len(compare(pair, CompareOptions(allow_other_verifiers=True)).differences) == 2


def test_a_run_without_any_scored_sample_is_never_significant(results, make):
    lost = make(4, 0.1, 0.1, ids=["a"], samples=4, unscored=4)
    compared = compare(
        {"base": lost, "x": make(5, 0.1, 0.1, ids=["a"], samples=4)}, CompareOptions(k=(1,))
    )
    (test,) = compared.leaders
    assert (test.p, test.problems, test.significant) == (1.0, 0, False)
    assert scored(compared).rows[0][1].text == "–"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": ("max",)}, "metric: unknown value 'max'.*did you mean 'max@k'"),
        ({"alpha": 0}, "alpha: must be a number between 0 and 1, got 0"),
        ({"alpha": "x"}, "alpha: must be a number between 0 and 1, got 'x'"),
        ({"budget": 5}, "budget: must be such as turns=1,2,4, got 5"),
        ({"baseline": "bse"}, "did you mean 'base'"),
    ],
)
def test_wrong_arguments_are_refused(results, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        compare(results, CompareOptions(**changes))


def test_one_model_is_nothing_to_compare(results):
    with pytest.raises(InvalidValueError, match="two models or more, got 1"):
        compare({"base": results["base"]})
