import dataclasses
import functools
import json

import numpy as np
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.load import load_results
from maxatk.evaluation.problem_groups import only_problems
from maxatk.evaluation.results import Counts, Diversity, Mean, PerProblem, Results
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.records import Outcome, Problem, Sample, Score, TestCase
from maxatk.statistics.intervals import student_mean
from maxatk.studies.findings import STUDY_FORMAT, Study


def score(problem_id, sample, reward, program=None):
    outcome = Outcome.INFRA_ERROR if reward is None else Outcome.PASSED
    return Score(problem_id, sample, reward, 0, 1, outcome, 0.0, program)


SCORES = [score("a", 0, 1.0), score("a", 1, None), score("b", 0, 0.5), score("b", 1, 0.0)]
SAMPLES = [Sample("a", 0, "x"), Sample("a", 1, "x"), Sample("b", 0, "x"), Sample("b", 1, "y")]


def test_unscored_samples_shrink_n_and_are_counted():
    results = build_results(["a", "b"], SAMPLES, SCORES, manifest={"m": 1})
    assert results.counts == Counts(
        *(2, 4, 1, {"infra_error": 1, "passed": 3}), reasons={"infra_error": 1}
    )
    assert results.per_problem.samples == (2, 2)
    assert results.per_problem.scored == (1, 2)
    assert results.metrics["max@k"][1].mean == 0.625
    assert results.metrics["max@k"][1].problems == 2
    assert results.per_problem.values["max@k"][2] == (None, 0.5)
    # One problem has no spread.
    assert results.metrics["max@k"][2] == Mean(0.5, None, None, problems=1, below=1)
    assert results.per_problem.distinct == (1, 2)
    assert results.diversity == Diversity(distinct=1.5)
    assert results.manifest == {"m": 1}


def test_a_reward_that_nobody_gave_is_told_in_words():
    missing = dataclasses.replace(score("a", 2, None), outcome=Outcome.NO_REWARD)
    counts = build_results(["a", "b"], None, [*SCORES, missing], manifest={}).counts
    left_out = "2 of 5 samples (40.0%) have no reward and are left out"
    assert counts.lacking == f"{left_out}: infra_error (1); none was given (1)"


def test_all_unscored_gives_null_not_zero():
    results = build_results(["a"], SAMPLES[:1], [score("a", 0, None)], manifest={})
    assert results.metrics["pass@k"][1].mean is None


def test_problems_with_different_numbers_of_samples():
    scores = [*SCORES, score("b", 2, 1.0)]
    rewards, counts = ScoreTally(scores=scores).rewards(["a", "b"])
    assert counts.tolist() == [2, 3]
    np.testing.assert_array_equal(rewards, [[1.0, np.nan, np.nan], [0.5, 0.0, 1.0]])
    results = build_results(["a", "b"], SAMPLES, scores, manifest={})
    assert results.ks == [1, 2]
    with pytest.raises(InvalidValueError, match="the 2 samples"):
        build_results(["a", "b"], SAMPLES, scores, manifest={}, ks=[3])


def test_an_unscored_sample_does_not_lower_the_largest_k():
    scores = [score("a", 0, 1.0), score("a", 1, None), score("b", 0, 0.5), score("b", 1, 1.0)]
    results = build_results(["a", "b"], None, scores, manifest={}, ks=[2])
    mean = results.metrics["max@k"][2]
    assert (mean.mean, mean.problems) == (1.0, 1)  # "a" has one reward, so it drops out
    short = [score("a", 0, 1.0), *scores[2:]]
    with pytest.raises(InvalidValueError, match="the 1 sample of a problem, got 2"):
        build_results(["a", "b"], None, short, manifest={}, ks=[2])


def test_problems_below_the_ceiling_are_counted():
    rewards = {"a": (1.0, 1.0), "b": (0.5, 1.0), "c": (0.0, 0.5), "d": (None, None)}
    scores = [
        score(name, i, value) for name, pair in rewards.items() for i, value in enumerate(pair)
    ]
    metrics = build_results(list(rewards), None, scores, manifest={}).metrics
    assert [metrics["max@k"][k].below for k in (1, 2)] == [2, 1]
    assert [metrics["max@k"][k].problems for k in (1, 2)] == [3, 3]


PAIRS = {"a": (-1.0, 1.0), "b": (1.0, 1.0), "c": (0.0, 1.0)}  # whose means lie in [0, 1]


@pytest.mark.parametrize("scale", [1, -1], ids=["rewards below 0", "rewards above 1"])
def test_the_interval_of_a_mean_is_cut_by_the_rewards_and_not_by_the_means(scale):
    rewards = {
        name: [reward if scale == 1 else 1 - reward for reward in pair]
        for name, pair in PAIRS.items()
    }
    scores = [
        score(name, i, value) for name, pair in rewards.items() for i, value in enumerate(pair)
    ]
    results = build_results(list(rewards), None, scores, manifest={})
    mean = results.metrics["max@k"][1]
    expected = student_mean(np.mean(list(rewards.values()), axis=1, keepdims=True))
    assert (mean.low, mean.high) == pytest.approx((expected.low[0], expected.high[0]), abs=1e-6)
    assert mean.low < 0 < 1 < mean.high
    assert mean.below == (3 if scale == -1 else 2)
    chance = results.metrics["pass@k"][1]
    assert 0 <= chance.low < chance.high <= 1
    assert only_problems(results, list(rewards)).metrics == results.metrics
    assert results.per_problem.lowest == tuple(map(min, rewards.values()))
    assert results.per_problem.highest == tuple(map(max, rewards.values()))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 5.0), (-3.0, 7.0)])
def test_a_chance_stays_within_0_and_1_whatever_the_rewards(low, high):
    right = {"a": 0, "b": 1, "c": 2, "d": 4}  # of 4 samples
    means = {}
    for wrong, passed in ((0.0, 1.0), (low, high)):
        scores = [
            score(name, i, passed if i < count else wrong)
            for name, count in right.items()
            for i in range(4)
        ]
        means[wrong, passed] = build_results(list(right), None, scores, manifest={}).metrics
    binary = means[0.0, 1.0]
    assert means[low, high]["pass@k"] == binary["pass@k"]
    assert binary["pass@k"][1].low == 0.0
    for k in (1, 2, 4):  # those of max@k are moved and stretched, and not cut
        cell = means[low, high]["max@k"][k]
        assert cell.mean == pytest.approx(low + (high - low) * binary["max@k"][k].mean, abs=1e-5)
        half = (cell.high - cell.low) / 2
        assert cell.mean - cell.low == pytest.approx(half, abs=1e-5)
        assert cell.below == (4 if high > 1 else binary["max@k"][k].below)


def test_samples_without_any_token_have_no_entropy_and_others_count():
    empty = [Sample("a", i, "", tokens=0, entropy=0.0) for i in range(2)]
    scores = [score("a", 0, 1.0), score("a", 1, 0.0)]
    assert build_results(["a"], empty, scores, manifest={}).entropy is None
    longer = [empty[0], Sample("a", 1, "x", tokens=4, entropy=0.5)]
    entropy = build_results(["a"], longer, scores, manifest={}).entropy
    assert (entropy.samples, entropy.token_mean, entropy.tokens_mean) == (2, 0.5, 2.0)


def test_programs_are_counted_by_their_fingerprints():
    scores = [score("a", i, 1.0, "x" if i < 3 else "y") for i in range(4)]
    scores += [score("b", i, 1.0, "x") for i in range(4)]
    results = build_results(["a", "b"], SAMPLES, scores, manifest={})
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert results.per_problem.programs == (2, 1)
    assert results.per_problem.program_entropy == (round(mixed, 6), 0.0)
    assert results.diversity.programs == 1.5
    assert results.diversity.program_entropy == pytest.approx(mixed / 2, abs=1e-6)
    lost = [*scores, score("b", 4, 1.0)]
    assert build_results(["a", "b"], SAMPLES, lost, manifest={}).diversity.programs is None


def test_a_column_that_every_rewarded_sample_has_chooses_the_best_of_k():
    rewards = [0.0, 1.0, 0.5, None]
    chances = [0.9, 0.2, 0.2, 0.0]
    scores = [
        dataclasses.replace(score("a", i, reward), columns={"chance": chance, "some": 1.0})
        for i, (reward, chance) in enumerate(zip(rewards, chances, strict=True))
    ]
    scores[1] = dataclasses.replace(scores[1], columns={"chance": 0.2})
    values = build_results(["a"], None, scores, manifest={}, ks=[1, 2, 3]).per_problem.values
    assert values["max@k by chance"] == {1: (0.5,), 2: (0.25,), 3: (0.0,), 4: (None,)}
    assert "max@k by some" not in values


def damaged(change):
    row = build_results(["a", "b"], SAMPLES, SCORES, manifest={"m": 1}).to_json()
    row = json.loads(json.dumps(row))
    change(row)
    return row


def test_results_are_what_their_file_says():
    results = build_results(["a", "b"], SAMPLES, SCORES, manifest={"m": 1}, meta=[{"x": 1}, {}])
    row = json.loads(json.dumps(results.to_json()))
    assert Results.from_json(row, place="r.json") == results


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("counts"), "missing required field `counts`"),
        (lambda row: row["metrics"].pop("pass@k"), "metrics.pass@k: is missing"),
        (lambda row: row["metrics"]["max@k"]["1"].update(mean="x"), r"metrics.*\.mean"),
        (lambda row: row["metrics"]["max@k"].update(x={}), r"Expected `int`, got `str`"),
        (lambda row: row["per_problem"]["max@k"].pop("2"), r"per_problem\.max@k\.2: is missing"),
        (lambda row: row["per_problem"]["max@k"].update({"2": [1]}), r"each of the 2 problems"),
        (lambda row: row["per_problem"].update(samples=[2]), r"per_problem\.samples: must have"),
        (lambda row: row["per_problem"].update(samples=[2, 2.5]), r"per_problem\.samples\[1\]"),
        (lambda row: row["counts"].update(outcomes=[]), r"counts\.outcomes"),
        (lambda row: row.update(per_problem=3), "per_problem"),
        (lambda row: row.update(manifest=None), r"manifest"),
        (lambda row: row.update(entropy={"samples": 1}), r"entropy"),
    ],
)
def test_a_damaged_value_is_named_with_its_file(change, message):
    with pytest.raises(DataError, match=rf"^r\.json: not a results object: .*{message}"):
        Results.from_json(damaged(change), place="r.json")


@pytest.mark.parametrize("row", [5, None, "x", [], [1], True])
@pytest.mark.parametrize(
    "from_json",
    [
        TestCase.from_json,
        Problem.from_json,
        Sample.from_json,
        Score.from_json,
        Study.from_json,
        functools.partial(Results.from_json, place="r.json"),
    ],
)
def test_what_is_no_object_of_json_is_refused_as_data(from_json, row):
    with pytest.raises(DataError, match=r"^(test|problem|sample|score|study|r\.json): must be an"):
        from_json(row)


def test_a_study_of_another_shape_is_refused_as_data():
    with pytest.raises(DataError, match=r"study: .*title"):
        Study.from_json({"format": STUDY_FORMAT})


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"metrics": 5}, "metrics: must be an object, got 5"),
        ({"metrics": {"max@k": 5, "pass@k": 5}}, "metrics.max@k: must be an object, got 5"),
        ({"per_problem": 5}, "per_problem: must be a PerProblem, got 5"),
    ],
)
def test_results_made_of_other_parts_are_refused_as_data(field, message):
    results = build_results(["a", "b"], SAMPLES, SCORES, manifest={})
    with pytest.raises(DataError, match=message):
        dataclasses.replace(results, **field)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"ids": 5}, "per_problem.ids: must be a list, got 5"),
        ({"ids": None}, "per_problem.ids: must be a list, got None"),
        ({"samples": 5}, "per_problem.samples: must be a list, got 5"),
        ({"values": 5}, "per_problem.values: must be an object, got 5"),
        ({"values": {"max@k": 5}}, "per_problem.max@k: must be an object, got 5"),
        ({"values": {"max@k": {1: 5}}}, "per_problem.max@k.1: must be a list, got 5"),
    ],
)
def test_columns_of_another_kind_are_refused_as_data(field, message):
    with pytest.raises(DataError, match=message):
        PerProblem(**field)


def test_means_alone_are_no_results_to_compare():
    row = {**damaged(lambda _: None), "per_problem": {}}
    with pytest.raises(DataError, match="holds means alone, and no values of problems"):
        load_results(row)
