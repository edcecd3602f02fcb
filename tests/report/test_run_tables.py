"""The shape of every table of a report, and what its cells rest on."""

import copy
import json

import numpy as np
import pytest

from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.results import Results
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Score
from maxatk.report import (
    compare,
    format_table,
    outcomes_table,
    overview_table,
    run_tables,
    write_report,
)
from maxatk.report.comparison_tables import table_of_tests
from maxatk.report.decision import decide
from maxatk.report.load_runs import load_comparison
from maxatk.report.notices import notices
from maxatk.report.run_tables import (
    every_k,
    samples_table,
    scores_table,
)
from maxatk.report.tables import transposed
from maxatk.statistics.significance import paired_difference

SHOWN = (1, 8, 32, 128)
EVERY = (1, 2, 4, 8, 16, 32, 64, 128)
METRICS = tuple(f"{metric}@{k}" for metric in ("max", "pass") for k in SHOWN)
SAMPLED = (
    *("model", "problems", "samples", "passed", "wrong answer", "unscored"),
    *("different completions per problem", "different programs per problem"),
    *("nats of programs per problem", "nats per completion", "nats per token"),
    "tokens per completion",
)
TESTS = (
    "metric",
    "difference",
    "95%, other problems, these trainings",
    "problems",
    "equal",
    "p",
    "adjusted p",
)
SHAPES = {
    "overview": (("model", *METRICS), 3),
    "every max@k": (("model", *(f"max@{k}" for k in EVERY)), 3),
    "every pass@k": (("model", *(f"pass@{k}" for k in EVERY)), 3),
    "samples": (SAMPLED, 3),
    "outcomes": (("outcome", "samples", "share"), 2),
    "scores": (("model", "max@1", "max@128"), 3),
    "leaders": (("best − other", *TESTS), 4),
    "tests": (("model − baseline", *TESTS), 4),
}


@pytest.fixture(scope="module")
def tables(results):
    runs = load_comparison(results)
    compared = compare(results)
    return {
        "overview": overview_table(runs),
        "every max@k": every_k(runs, "max@k"),
        "every pass@k": every_k(runs, "pass@k"),
        "samples": samples_table(runs),
        "outcomes": outcomes_table(Results.from_json(results["base"], place="")),
        "scores": scores_table(compared.comparisons, compared.measures, compared.stars),
        "leaders": table_of_tests("best − other", compared.leaders),
        "tests": table_of_tests("model − baseline", compared.differences),
    }


@pytest.mark.parametrize("name", SHAPES)
def test_every_table_has_its_shape(tables, name):
    table = tables[name]
    assert (table.header, len(table.rows)) == SHAPES[name]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("table_format", ["md", "csv", "latex"])
def test_every_table_can_be_written_with_a_line_a_row(tables, name, table_format):
    lines = format_table(tables[name], table_format).splitlines()
    around = {"md": 2, "csv": 1, "latex": 6}[table_format]
    assert len(lines) == SHAPES[name][1] + around


def test_the_models_are_named_in_every_table_of_models(tables):
    for name in ("overview", "every max@k", "samples", "scores"):
        assert [row[0].text for row in tables[name].rows] == ["base", "sharp", "same"]


@pytest.mark.parametrize("metric", ["max@k", "pass@k"])
def test_differences_are_those_of_the_problems(results, metric):
    tests = decide(load_comparison(results), metric).tests
    assert len(tests) == 3 * len(EVERY)
    for test in tests:
        first, second = (
            np.array(
                [results[model]["per_problem"][metric][str(test.measure.k)]], dtype=np.float64
            ).T
            for model in (test.first, test.second)
        )
        difference = paired_difference(first, second)
        assert test.difference == pytest.approx(difference.mean[0])
        assert (test.low, test.high) == pytest.approx((difference.low[0], difference.high[0]))
        turned = test.seen_from(test.second)
        back = paired_difference(second, first)
        assert (turned.low, turned.high) == pytest.approx((back.low[0], back.high[0]))
        assert turned.seen_from(test.first) == test


def results_of(rewards, *, programs=None):
    """Results without samples, entropy and programs: rewards by problem."""
    scores = [
        Score(name, i, r, 0, 1, Outcome.INFRA_ERROR if r is None else Outcome.PASSED, 0.0, programs)
        for name, row in rewards.items()
        for i, r in enumerate(row)
    ]
    return json.loads(json.dumps(build_results(list(rewards), None, scores, manifest={}).to_json()))


def test_what_no_run_recorded_is_a_dash():
    table = samples_table(load_comparison({"base": results_of({"a": (1.0, 0.0)})}))
    row = dict(zip(table.header, (cell.text for cell in table.rows[0]), strict=True))
    assert {row[name] for name in SAMPLED[6:]} == {"–"}
    assert (row["samples"], row["unscored"]) == ("2", "0")


def test_a_mean_over_fewer_problems_says_over_how_many():
    whole = {f"p{i}": (1.0, 0.5) if i % 2 else (0.0, 0.5) for i in range(10)}
    lost = {**whole, "p0": (0.0, None), "p1": (None, None)}
    runs = {"base": results_of(whole), "lost": results_of(lost)}
    table = overview_table(runs, ks=(1, 2))
    notes = {
        (row[0].text, name): cell.note
        for row in table.rows
        for name, cell in zip(table.header, row, strict=True)
    }
    assert notes["base", "max@1"] == notes["base", "max@2"] == ""
    assert (notes["lost", "max@1"], notes["lost", "max@2"]) == ("9 problems", "8 problems")
    tests = decide(load_comparison(runs)).tests
    assert [test.problems for test in tests] == [9, 8]
    written = format_table(table, "csv").splitlines()[0]
    assert "max@2 note" in written
    assert "(8 problems)" in format_table(table, "md")
    assert "(8 problems)" in format_table(table, "latex")


def test_a_metric_at_its_ceiling_says_how_many_problems_are_below(tmp_path):
    rewards = {f"p{i}": (1.0, 1.0 if i else 0.0) for i in range(12)}
    runs = {"base": results_of(rewards)}
    row = overview_table(runs, ks=(1, 2)).rows[0]
    assert [cell.note for cell in row[1:3]] == ["1 problem below 1", "0 problems below 1"]
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert "<small>1 problem below 1</small>" in page
    assert "With 12 problems only, intervals are Student" in page


def test_problems_in_common_are_all_that_a_table_is_about(results, make):
    few = make(9, 0.1, 0.1, ids=["p<3>", "p<1>"])
    runs = load_comparison({"base": results["base"], "x": few}, allow_other_problems=True)
    assert [run.problems for run in runs.runs] == [2, 2]
    total = len(results["base"]["per_problem"]["ids"])
    (notice,) = (notice for notice in notices(runs) if notice.id == "common-problems")
    assert notice.lines == [f"base: 2 of its {total} problems, those of all runs."]
    assert not any("2 problems" in cell.note for row in overview_table(runs).rows for cell in row)


def test_one_problem_has_no_interval_and_its_models_cannot_be_told_apart(make):
    one = make(1, 0.3, 0.3, ids=["a"], samples=8)
    other = make(2, 0.3, 0.3, ids=["a"], samples=8)
    runs = load_comparison({"base": one, "x": other})
    assert overview_table(runs).rows[0][1].detail == ""
    sentences = decide(runs).sentences
    assert sentences[0].startswith("For every N from 1 to 8: ")
    assert sentences[0].endswith(", which the test does not tell apart.")
    assert sentences[1] == "x is not told apart from base for every N from 1 to 8."


def test_models_without_a_problem_in_common_are_not_told_apart(make):
    lost = make(4, 0.1, 0.1, ids=["a"], samples=4, unscored=4)
    runs = load_comparison({"base": lost, "x": make(5, 0.1, 0.1, ids=["a"], samples=4)})
    assert [test.p for test in decide(runs).against_baseline] == [1.0] * 3


def test_shares_of_outcomes_add_up(tables, results):
    rows = tables["outcomes"].rows
    numbers = [int(row[1].text.replace(",", "")) for row in rows]
    assert sum(numbers) == results["base"]["counts"]["samples"]
    shares = [float(row[2].text.removesuffix("%")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.2)


@pytest.mark.parametrize("lost", [Outcome.NO_REWARD, Outcome.INFRA_ERROR])
def test_samples_without_a_reward_are_told_once(lost):
    outcomes = [Outcome.SCORED, Outcome.NO_REWARD, lost]
    scores = [
        Score("p", i, 1.0 if outcome is Outcome.SCORED else None, 0, 0, outcome, 0.0)
        for i, outcome in enumerate(outcomes)
    ]
    table = outcomes_table(build_results(["p"], None, scores, manifest={}))
    counts = {row[0].text: row[1].text for row in table.rows}
    if lost is Outcome.NO_REWARD:
        assert counts == {"scored": "1", "no_reward": "2"}
    else:
        of_all = {"all without a reward": "2"}
        assert counts == {"infra_error": "1", "scored": "1", "no_reward": "1", **of_all}


def test_a_column_that_one_run_lacks_is_zero_there(results, make):
    timed = copy.deepcopy(results["same"])
    timed["counts"]["outcomes"]["time_limit"] = 7
    table = samples_table(load_comparison({"base": results["base"], "slow": timed}))
    place = table.header.index("time limit")
    assert [row[place].text for row in table.rows] == ["0", "7"]


def test_a_column_more_is_one_entry(results, monkeypatch, tmp_path):
    entry = ("sampled", 0, lambda run: run.entropy.samples)
    monkeypatch.setattr(run_tables, "SAMPLES_COLUMNS", (*run_tables.SAMPLES_COLUMNS, entry))
    table = samples_table(load_comparison(results))
    number = results["base"]["entropy"]["samples"]
    assert (table.header[-1], table.rows[0][-1].text) == ("sampled", f"{number}")
    assert "sampled" in write_report(results, tmp_path / "r.html").read_text()


def test_a_transposed_table_has_models_as_columns_and_no_empty_rows():
    runs = {"a": results_of({"p": (1.0, 0.0)}), "b": results_of({"p": (1.0, 1.0)})}
    table = transposed(samples_table(load_comparison(runs)))
    assert table.header == ("model", "a", "b")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows == {
        "problems": ["1", "1"],
        "samples": ["2", "2"],
        "passed": ["2", "2"],
        "unscored": ["0", "0"],
    }


def test_runs_of_different_numbers_of_samples_have_a_retry_up_to_the_k_of_all(tmp_path):
    sources = {}
    for name, count in (("base", 16), ("tuned", 4)):  # retries up to 8 tries, and up to 2
        shares = [number % 2 for number in range(count)]
        rows = [{"problem_id": "p", "reward": share, "visible_tests": share} for share in shares]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
        sources[name] = tmp_path / f"{name}.jsonl"
    table = run_tables.retry_table(load_comparison(sources))
    assert table.header == ("model", "max@1", "max@2", "max@4")
    names = [row[0].text.partition(",")[0] for row in table.rows]
    assert names == ["base", "base", "tuned", "tuned"]
    assert [cell.text == "–" for cell in table.rows[3]] == [False, False, False, True]
    assert 'id="retry"' in write_report(sources, tmp_path / "page.html").read_text()
