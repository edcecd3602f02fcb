"""The verdict: which model is best at which k, the same on the page and in `compare`."""

import copy
import html.parser
import json
import re

import numpy as np
import pandas as pd
import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation import frame
from maxatk.report import CompareOptions, compare, write_report
from maxatk.report.comparison import pooled
from maxatk.report.decision import decide
from maxatk.report.load_runs import load_comparison
from maxatk.report.notices import notices
from maxatk.report.run_tables import winners
from maxatk.statistics.power import pairs_needed
from maxatk.statistics.significance import (
    adjusted_p_values,
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
    sign_flip_p,
)

KS = tuple(2**i for i in range(8))


@pytest.fixture(scope="module")
def decision(results):
    return decide(load_comparison(results))


def test_the_leaders_are_the_best_mean_and_whom_the_test_does_not_tell_from_it(decision, results):
    for k, (best, *tied) in decision.leaders.items():
        means = {name: run["metrics"]["max@k"][str(k)]["mean"] for name, run in results.items()}
        assert means[best] == max(means.values())
        tests = {t.second: t for t in decision.against_best if t.measure.k == k}
        assert tests.keys() == results.keys() - {best}
        assert set(tied) == {name for name, test in tests.items() if not test.significant}
    assert decision.leaders[1] == ("sharp",)
    assert set(decision.leaders[128]) == {"base", "same"}


def test_all_pairs_of_models_are_corrected_together_over_all_k(decision):
    tests = decision.tests
    assert len({frozenset((t.first, t.second, t.measure.k)) for t in tests}) == 3 * 8
    assert [t.adjusted_p for t in tests] == adjusted_p_values([t.p for t in tests])
    assert [t.significant for t in tests] == [t.adjusted_p <= 0.05 for t in tests]
    of = {(frozenset((t.first, t.second)), t.measure.k): t for t in tests}
    for shown in (decision.against_best, decision.against_baseline):
        assert len(shown) == 2 * 8
        for test in shown:
            same = of[frozenset((test.first, test.second)), test.measure.k]
            assert (test.adjusted_p, test.zeros) == (same.adjusted_p, same.zeros)


@pytest.mark.parametrize("metric", ["max@k", "pass@k"])
def test_the_sentence_to_send_has_the_best_model_its_worth_and_whom_it_is_tied_with(
    results, metric
):
    comparison = load_comparison(results)
    decision = decide(comparison, metric)
    for k, (best, *tied) in decision.leaders.items():
        advice = decision.advice(k)
        mean = comparison.run(best).metric(metric, k)
        other = "base" if best != "base" else comparison.ranked(metric, k)[1]
        start = f"{best} is not told apart from {other}" if other in tied else f"take {best}"
        assert advice.startswith(f"For N = {k} {start}: ")
        # At the ceiling all problems have the same value, which has no interval.
        ends = "" if mean.low is None else f" [{mean.low:.3f}, {mean.high:.3f}]"
        assert f" {mean.mean:.3f}{ends} against " in advice
        assert all(name in advice for name in tied)
        assert advice.count(". ") + 1 <= 3


def test_too_few_problems_are_said_with_how_many_would_do(make):
    ids = [f"p{i}" for i in range(10)]
    few = {"base": make(1, 0.3, 0.1, ids=ids), "tuned": make(2, 0.32, 0.12, ids=ids)}
    comparison = load_comparison(few)
    decision = decide(comparison)
    assert len(decision.leaders[8]) == 2
    base = comparison.run("base").values("max@k", [8])[:, 0]
    tuned = comparison.run("tuned").values("max@k", [8])[:, 0]
    moved = tuned - base
    needed = pairs_needed(moved.mean(), moved.std(ddof=1))
    assert needed > 10
    expected = (
        f" 10 problems cannot tell: about {needed:,} would show a difference of "
        f"{abs(moved.mean()):.3f} in four of five such comparisons."
    )
    assert decision.advice(8).endswith(expected)
    many = {"base": make(1, 0.05, 0.02), "tuned": make(2, 0.5, 0.4)}
    assert "cannot tell" not in decide(load_comparison(many)).advice(8)
    same = {"base": few["base"], "again": few["base"]}
    assert "cannot tell" not in decide(load_comparison(same)).advice(8)


def test_where_no_difference_could_be_found_six_problems_are_asked_for():
    rewards = {"base": [0.1, 0.2, 0.3, 0.1, 0.3], "tuned": [0.5, 0.55, 0.75, 0.5, 0.75]}
    rows = {
        name: pd.DataFrame({"problem_id": [f"p{i}" for i in range(5)], "reward": values})
        for name, values in rewards.items()
    }
    decision = decide(load_comparison({name: frame(table) for name, table in rows.items()}))
    assert decision.tests[0].p == 2**-4
    assert " 5 problems cannot tell: about 6 would show a difference of 0.410" in decision.advice(1)


def test_a_difference_of_rounding_alone_is_none(make):
    ids = [f"p{i}" for i in range(10)]
    base = make(1, 0.3, 0.1, ids=ids)
    turned = copy.deepcopy(base)  # each value at another problem: the means differ by rounding
    order = np.random.default_rng(2).permutation(10)
    for values in turned["per_problem"]["max@k"].values():
        values[:] = [values[place] for place in order]
    comparison = load_comparison({"base": base, "turned": turned})
    of_base = comparison.run("base").values("max@k", [1])
    of_turned = comparison.run("turned").values("max@k", [1])
    assert 0 < abs((of_turned - of_base).mean()) < 1e-15
    assert "cannot tell" not in decide(comparison).advice(1)


def test_words_and_strips_say_what_was_decided(decision):
    first, *others = decision.sentences
    assert re.fullmatch(r"For N = 1 to \d+: sharp\.", first)
    assert any(
        re.fullmatch(r"sharp is above base for N = 1 to .* below it .* 128\.", line)
        for line in others
    )
    assert "same is not told apart from base for every N from 1 to 128." in others
    strip = {row[0].text: [cell.text for cell in row[1:]] for row in winners(decision).rows}
    for at, k in enumerate(decision.leaders):
        words = {name: cells[at] for name, cells in strip.items() if cells[at]}
        best = [name for name, word in words.items() if word == "best"]
        assert set(best) == set(decision.best_at(k))
        assert words.keys() == set(decision.leaders[k])


class Marks(html.parser.HTMLParser):
    """The classes of the cells of one table of a page, row by row."""

    def __init__(self, page, table):
        super().__init__()
        self.table = table
        self.inside = False
        self.rows = []
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
    compared = compare(results, CompareOptions(metric=("max@k", "pass@k"), k=KS))
    page = write_report(results, tmp_path / "r.html").read_text()
    data = json.loads(re.search(r'id="problem-data">(.*?)</script>', page)[1])
    for at, metric in enumerate(("max@k", "pass@k")):
        marks = {(first, second, k): mark for first, second, k, *_, mark, _ in data["tests"][at]}
        for place, name in enumerate(("base", "sharp", "same")):
            expected = []
            for test in compared.differences:
                if test.first == name and test.measure.metric == metric:
                    side = "above" if test.difference > 0 else "below"
                    expected.append(side if test.significant else "")
            assert [marks.get((place, 0, k)) for k in range(len(expected))] == expected
        shown = Marks(page, f"winners-{metric.replace('@', '-at-')}").rows[1:]
        decision = compared.decisions["", metric]
        for at_k, (k, leaders) in enumerate(decision.leaders.items()):
            marked = [row[at_k] for row in shown]
            assert marked.count("best") == len(decision.best_at(k))
            assert marked.count("best") + marked.count("tied") == len(leaders)
    assert compared.decisions["", "max@k"] == decide(load_comparison(results))
    assert page.index('class="findings"') < page.index('id="scores-max-at-k"')
    assert "paired t-test over 30 problems" in page


def test_the_k_that_are_shown_change_no_verdict(results):
    few, many = (
        {(t.first, t.measure): t for t in compare(results, CompareOptions(k=ks)).differences}
        for ks in ((1, 128), (1, 2, 4, 128))
    )
    assert few.items() <= many.items()


def of_seeds(make, problems):
    """Results of two models over three seeds, which share their problems or have their own."""
    by_seed = []
    for seed in range(3):
        ids = [f"{seed if problems == 'own' else ''}p{i}" for i in range(12)]
        models = {"base": make(10 + seed, 0.1, 0.1, ids=ids)}
        models["tuned"] = make(20 + seed, 0.2, 0.1 + 0.02 * seed, ids=ids)
        by_seed.append(models)
    return by_seed


@pytest.fixture(scope="module", params=["own", "shared"])
def seeds(make, request):
    return request.param, of_seeds(make, request.param)


def pooled_over(seeds):
    return pooled({f"seed {i}": load_comparison(models) for i, models in enumerate(seeds)})


def moved_by(seeds, k):
    """The differences of problems, (S, P)."""
    columns = [
        np.array([seed[name]["per_problem"]["max@k"][k] for seed in seeds])
        for name in ("tuned", "base")
    ]
    return columns[0] - columns[1]


def test_from_three_seeds_on_they_decide_and_with_the_problems_that_they_share(seeds):
    kind, by_seed = seeds
    comparison = pooled_over(by_seed)
    decision = decide(comparison)
    over = "3 training seeds" + (" and 12 problems" if kind == "shared" else "")
    assert decision.comparison.test_name == f"paired t-test over {over}"
    for test in decision.against_baseline:
        moved = moved_by(by_seed, str(test.measure.k))[:, :, None]
        expected = over_seeds_and_problems(moved) if kind == "shared" else over_seeds(list(moved))
        rows = moved.mean(axis=0) if kind == "shared" else moved.reshape(-1, 1)
        prompts = paired_difference(rows, 0 * rows)
        numbers = (
            expected.p,
            expected.mean,
            expected.low,
            expected.high,
            prompts.low,
            prompts.high,
        )
        known = (test.p, test.difference, test.low, test.high, test.prompts_low, test.prompts_high)
        assert known == pytest.approx([None if np.isnan(x[0]) else x[0] for x in numbers])
        assert test.by_seed == pytest.approx(moved.mean(axis=(1, 2)))
        assert test.above == sum(difference > 0 for difference in test.by_seed)
        assert test.sign_flip_p == sign_flip_p(test.by_seed)


def test_two_seeds_are_tested_over_their_problems(make):
    for kind, problems in (("own", 24), ("shared", 12)):
        comparison = pooled_over(of_seeds(make, kind)[:2])
        assert comparison.test_name == f"paired t-test over {problems} problems"
        assert comparison.speaks_of == "other problems, these trainings"


def test_the_page_of_several_seeds_says_of_whom_the_test_speaks(seeds, tmp_path):
    kind, by_seed = seeds
    together = pooled_over(by_seed)
    page = write_report(together, tmp_path / "r.html").read_text()
    problems = "other problems" if kind == "shared" else "problems of their own"
    assert re.search(f"It speaks of other seeds (and|with) {problems}\\.", page)
    more = {**by_seed[0], "same": by_seed[0]["base"]}
    with pytest.raises(InvalidValueError, match="model: unknown value 'same'"):
        pooled_over([more, *by_seed[1:]])


def with_values(result, value_of):
    """Return results whose problem i has the value value_of(i) of max@k at every k."""
    row = copy.deepcopy(result)
    for k, values in row["per_problem"]["max@k"].items():
        values[:] = map(value_of, range(len(values)))
        known = [value for value in values if value is not None]
        mean = sum(known) / len(known) if known else None
        row["metrics"]["max@k"][k].update(mean=mean, problems=len(known))
    return row


def test_models_are_ranked_on_the_problems_that_all_have(results):
    easy = with_values(results["base"], lambda i: 0.9 - 0.001 * i if i < 10 else None)
    full = with_values(results["same"], lambda i: 0.999 if i < 10 else 0.0)
    comparison = load_comparison({"easy": easy, "full": full})
    means = [run.metric("max@k", 8).mean for run in comparison.runs]
    assert means[0] > means[1]  # over other problems
    decision = decide(comparison)
    assert decision.leaders == dict.fromkeys(KS, ("full",))
    assert decision.sentences == [
        "For every N from 1 to 128: full.",
        "full is above easy for every N from 1 to 128.",
    ]
    assert decision.advice(8).startswith("For N = 8 take full: its best of 8 is worth 0.")
    in_common = "Over the 10 problems with a value in both the difference is +0.103 [+"
    assert in_common in decision.advice(8)
    (notice,) = (notice for notice in notices(comparison) if notice.id == "other-values")
    total = len(full["per_problem"]["ids"])
    assert notice.lines == [
        f"k = {', '.join(map(str, KS))}: the models have k rewards of 10 to {total} problems; they "
        "are ranked on the 10 that all have, and each test is over those of both."
    ]


def test_nobody_leads_whom_a_test_has_below_another(results):
    known = {
        "a": lambda i: 0.51 if i < 6 else 0.1 + 0.001 * i,
        "b": lambda i: 0.5 if i < 6 else 0.4 + 0.003 * i,
        "c": lambda i: 0.1 if i < 6 else None,
    }
    runs = {name: with_values(results["base"], value_of) for name, value_of in known.items()}
    comparison = load_comparison(runs)
    assert comparison.ranked("max@k", 1) == ["a", "b", "c"]  # on the first six
    decision = decide(comparison)
    assert decision.leaders == dict.fromkeys(KS, ("b",))
    assert {test.mark for test in decision.against_best} == {"above"}
    assert decision.advice(1).startswith("For N = 1 take b: ")


def test_runs_without_a_problem_in_common_are_ranked_by_their_own_means(results):
    first = with_values(results["base"], lambda i: 0.3 if i < 10 else None)
    other = with_values(results["base"], lambda i: None if i < 10 else 0.4)
    comparison = load_comparison({"first": first, "other": other})
    assert comparison.ranked("max@k", 1) == ["other", "first"]
    assert decide(comparison).leaders[1] == ("other", "first")


def test_of_many_models_a_sentence_names_the_first_and_counts_the_others(make):
    runs = {name: make(seed, 0.3, 0.1, samples=8) for seed, name in enumerate("abcdefg")}
    decision = decide(load_comparison(runs))
    best, *tied = decision.leaders[1]
    assert len(tied) == 6
    assert (
        f"For every N from 1 to 8: {best}, {tied[0]}, {tied[1]} and 4 others,"
        in (decision.sentences[0])
    )
    other = "a" if best != "a" else tied[0]
    first, second, third, *_ = [name for name in tied if name != other]
    advice = decision.advice(1)
    assert f"does not tell it from {first}, {second}, {third} and 2 others." in advice
