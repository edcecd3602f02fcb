"""The verdict: which model is best at which k, the same on the page and in `compare`."""

import copy
import html.parser
import re

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation.statistics.seeds import seed_difference
from maxatk.evaluation.statistics.significance import adjusted_p_values
from maxatk.report import compare, write_report
from maxatk.report.deciding import decide, sentences
from maxatk.report.runs import load_comparison, with_seeds
from maxatk.report.strip import against_baseline, winners


@pytest.fixture(scope="module")
def decision(results):
    return decide(load_comparison(results))


def test_the_leaders_are_the_best_mean_and_whom_the_test_does_not_tell_from_it(decision, results):
    for k, (best, *tied) in decision.leaders.items():
        means = {name: found["metrics"]["max@k"][str(k)]["mean"] for name, found in results.items()}
        assert means[best] == max(means.values())
        tests = {t.second: t for t in decision.against_best if t.measure.k == k}
        assert tests.keys() == results.keys() - {best}
        assert set(tied) == {name for name, test in tests.items() if not test.significant}
    assert decision.leaders[1] == ("sharp",)
    assert set(decision.leaders[128]) == {"base", "same"}


def test_both_lists_are_corrected_over_all_models_and_all_k(decision):
    for tests in (decision.against_best, decision.against_baseline):
        assert len(tests) == 2 * 8
        assert [t.adjusted_p for t in tests] == adjusted_p_values([t.p for t in tests])
        assert [t.significant for t in tests] == [t.adjusted_p <= 0.05 for t in tests]


def test_words_and_strips_say_what_was_decided(decision):
    first, *others = sentences(decision)
    assert re.fullmatch(r"For N = 1 to \d+: sharp\.", first)
    assert any(
        re.fullmatch(r"sharp is above base for N = 1 to .* below it .* 128\.", line)
        for line in others
    )
    assert "same is not told apart from base for every N from 1 to 128." in others
    strip = {row[0].text: [cell.text for cell in row[1:]] for row in winners(decision).rows}
    for at, k in enumerate(decision.ks):
        words = {name: cells[at] for name, cells in strip.items() if cells[at]}
        assert list(words.values()).count("best") == 1
        assert words.keys() == set(decision.leaders[k])
    rows = against_baseline(decision).rows
    signs = {row[0].text: [cell.text for cell in row[1:]] for row in rows}
    assert (signs["sharp"][0], signs["sharp"][-1]) == ("+", "−")
    assert set(signs["same"]) == {"="}


class Marks(html.parser.HTMLParser):
    """The classes of the cells of one table of a page, row by row."""

    def __init__(self, page, table):
        super().__init__()
        self.table, self.inside, self.rows = table, False, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.inside = attrs.get("id") == self.table
        if self.inside and tag == "tr":
            self.rows.append([])
        if self.inside and tag == "td":
            self.rows[-1].append(attrs.get("class", ""))


def test_the_page_and_compare_never_disagree(results, tmp_path):
    compared = compare(results, metrics=("max@k", "pass@k"), ks=(1, 8, 32, 128))
    page = write_report(results, tmp_path / "r.html").read_text()
    marks = Marks(page, "differences").rows[1:]
    for at, name in enumerate(("sharp", "same")):
        tests = {t.measure.name: t for t in compared.differences if t.first == name}
        expected = [
            "" if not t.significant else "above" if t.difference > 0 else "below"
            for t in tests.values()
        ]
        assert marks[at] == expected
    assert compared.decisions["", "max@k"] == decide(load_comparison(results))
    assert page.index('id="findings"') < page.index('id="overview"')
    assert "paired bootstrap test over 30 problems" in page


def test_the_k_that_are_shown_change_no_verdict(results):
    few, many = (
        {(t.first, t.measure): t for t in compare(results, ks=ks).differences}
        for ks in ((1, 128), (1, 2, 4, 128))
    )
    assert few.items() <= many.items()


@pytest.fixture(scope="module")
def seeds(make):
    return [
        {"base": make(10 + s, 0.1, 0.1), "tuned": make(20 + s, 0.2, 0.1 + 0.02 * s)}
        for s in range(3)
    ]


def test_the_page_of_several_seeds_says_that_they_decide(results, seeds, tmp_path):
    together = {"base": results["base"], "tuned": results["sharp"]}
    page = write_report(together, tmp_path / "r.html", seeds=seeds).read_text()
    assert "paired t-test over 3 training seeds" in page
    assert "It speaks of other training seeds." in page
    with pytest.raises(InvalidValueError, match=r"seeds\[0\]: has no results of 'same'"):
        write_report({**together, "same": results["same"]}, tmp_path / "r.html", seeds=seeds)


def test_three_seeds_or_more_decide_instead_of_problems(results, seeds):
    together = {name: results[place] for name, place in (("base", "base"), ("tuned", "sharp"))}
    comparison = with_seeds(load_comparison(together), seeds)
    found = decide(comparison)
    assert found.test == "paired t-test over 3 training seeds"
    for test in found.against_baseline:
        k = str(test.measure.k)
        column = [
            np.mean(seed["tuned"]["per_problem"]["max@k"][k])
            - np.mean(seed["base"]["per_problem"]["max@k"][k])
            for seed in seeds
        ]
        expected = seed_difference(column)
        assert (test.p, test.difference) == pytest.approx((expected.p, expected.mean))
    two = with_seeds(load_comparison(together), seeds[:2])
    assert decide(two).test == "paired bootstrap test over 30 problems"


def test_a_best_model_that_is_below_on_the_problems_in_common_beats_nobody(results):
    easy = copy.deepcopy(results["base"])
    for values in easy["per_problem"]["max@k"].values():
        values[:] = [0.9 - 0.001 * i if i < 10 else None for i in range(len(values))]
    for found in easy["metrics"]["max@k"].values():
        found["mean"] = 0.99
    full = copy.deepcopy(results["same"])
    for values in full["per_problem"]["max@k"].values():
        values[:] = [1.0] * 10 + [0.0] * (len(values) - 10)
    found = decide(load_comparison({"easy": easy, "full": full}))
    assert found.leaders[1] == ("easy", "full")
