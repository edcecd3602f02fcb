"""What choosing the best of k samples by a stored score gains, against every subset."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import (
    InvalidValueError,
    MissingDependencyError,
    MissingFileError,
)
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.evaluation.load import results_of_folder
from maxatk.evaluation.selection_gains import SCORIO_RULES, selection_gains
from maxatk.jsonl import write_jsonl
from maxatk.objectives import max_at_k
from maxatk.records import Outcome, Problem, Sample, Score, TestCase
from runs import scored, write_run, write_samples

VISIBLE = (TestCase(input="", output="1\n"), TestCase(input="x", output="2\n"))
PROBLEM = Problem(
    "p", "print(1)\n", (TestCase(input="", output="3\n"),), visible_tests=VISIBLE, answer="3"
)


def test_scored_samples_can_be_chosen_by_visible_tests(maxatk, verifier, tmp_path):
    programs = ["print(3)", "print(1)", "print(3 if not input() else 2)"]
    samples = write_samples(tmp_path / "s.jsonl", {"p": programs})
    scored(samples, [PROBLEM], tmp_path / "run", verifier=verifier)
    done = maxatk("select", "run", "--by", "visible_tests", "--k", 3, "--format", "csv")
    rows = {line.split(",")[0]: line.split(",")[2] for line in done.stdout.splitlines()}
    assert float(rows["truth"]) == 1.0
    assert float(rows["visible_tests"]) == 0.0  # print(1) passes one of them, and is wrong


few = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.sampled_from([0.0, 1.0, 3.0])),
    min_size=1,
    max_size=7,
)


def by_hand(rewards, scores, k):
    values = []
    for chosen in itertools.combinations(range(len(rewards)), k):
        best = max(scores[i] for i in chosen)
        values.append(np.mean([rewards[i] for i in chosen if scores[i] == best]))
    return np.mean(values)


@given(few)
def test_the_choice_by_a_score_is_the_mean_over_all_subsets(pairs):
    rewards, scores = (np.array(column) for column in zip(*pairs, strict=True))
    ks = list(range(1, len(rewards) + 1))
    means = max_at_k(rewards, ks, selection=scores)
    assert means == pytest.approx([by_hand(rewards, scores, k) for k in ks])
    assert max_at_k(rewards, ks, selection=rewards) == pytest.approx(max_at_k(rewards, ks))
    same = max_at_k(rewards, ks, selection=np.zeros(len(rewards)))
    assert same == pytest.approx(np.full(len(rewards), rewards.mean()))


def votes_by_hand(rewards, votes, k):
    values = []
    for chosen in itertools.combinations(range(len(rewards)), k):
        counts = {v: sum(votes[i] == v for i in chosen) for v in {votes[i] for i in chosen}}
        firsts = [v for v, count in counts.items() if count == max(counts.values())]
        means = [np.mean([rewards[i] for i in chosen if votes[i] == v]) for v in firsts]
        values.append(np.mean(means))
    return np.mean(values)


@pytest.fixture
def run(tmp_path):
    rewards = {"p": [0, 1, 0, 1], "q": [0, 0, 1, None]}
    logprobs = {"p": [-4.0, -1.0, -3.0, -2.0], "q": [-1.0, -2.0, -3.0, -4.0]}
    scores = [
        Score(p, i, r, 0, 1, Outcome.SCORED, 0.0, columns={} if r is None else {"judge": float(r)})
        for p, values in rewards.items()
        for i, r in enumerate(values)
    ]
    samples = [
        Sample(p, i, str(i % 2), tokens=2, logprob=value)
        for p, values in logprobs.items()
        for i, value in enumerate(values)
    ]
    write_run(tmp_path / "run", scores, samples)
    return tmp_path / "run"


def test_a_run_is_chosen_from_by_any_of_its_numbers(run):
    selection = selection_gains(run, ["likelihood", "judge", "majority"], ks=[1, 3])
    assert list(selection.gains) == ["truth", "likelihood", "judge", "majority", "random"]
    assert selection.gains["judge"].mean == pytest.approx(selection.gains["truth"].mean)
    assert selection.gains["truth"].mean == pytest.approx([(1 / 2 + 1 / 3) / 2, 1.0])
    assert selection.gains["likelihood"].mean[1] == pytest.approx((1 + 0) / 2)
    votes = [([0, 1, 0, 1], "0101"), ([0, 0, 1], "010")]
    by_votes = [np.mean([votes_by_hand(*problem, k) for problem in votes]) for k in (1, 3)]
    assert selection.gains["majority"].mean == pytest.approx(by_votes)
    assert selection.gains["random"].mean == pytest.approx([(1 / 2 + 1 / 3) / 2] * 2)
    assert (selection.problems, selection.left_out, selection.samples_left_out) == (2, 0, 1)


@pytest.mark.parametrize("program", [None, "0" * 16])
def test_samples_without_an_answer_do_not_agree(tmp_path, program):
    ended = [(Outcome.UNFINISHED_THOUGHT, "<think> 5")] * 3 + [(Outcome.SCORED, "4")] * 2
    scores = []
    samples = []
    for i, (outcome, text) in enumerate(ended):
        is_right = outcome is Outcome.SCORED
        voted = program if program is None or not is_right else "1" * 16
        scores.append(Score("p", i, float(is_right), 0, 0, outcome, 0.0, program=voted))
        samples.append(Sample("p", i, text))
    write_run(tmp_path / "run", scores, samples)
    gains = selection_gains(tmp_path / "run", ["majority"], ks=[1, 5]).gains
    assert gains["majority"].mean == pytest.approx([2 / 5, 1.0])


def test_columns_of_a_table_choose_where_its_completions_know_no_such_number(tmp_path):
    columns = {"tokens": [2.0, 1.0], "likelihood": [-2.0, -1.0]}
    scores = [
        Score("p", i, 1.0 - i, 0, 0, Outcome.SCORED, 0.0, columns={"tokens": t, "likelihood": x})
        for i, (t, x) in enumerate(zip(*columns.values(), strict=True))
    ]
    texts = [Sample("p", i, "x") for i in range(2)]
    write_run(tmp_path / "table", scores, texts)
    gains = selection_gains(tmp_path / "table", ["tokens", "likelihood"], ks=[2]).gains
    assert (gains["tokens"].mean, gains["likelihood"].mean) == ([1.0], [0.0])
    counted = [Sample("p", i, "x", tokens=i) for i in range(2)]  # a sample's own number comes first
    write_run(tmp_path / "run", scores, counted)
    assert selection_gains(tmp_path / "run", ["tokens"], ks=[2]).gains["tokens"].mean == [0.0]


def test_a_problem_with_too_few_samples_is_left_out_at_that_k_as_in_the_results(run, maxatk):
    gains = selection_gains(run, ["judge", "majority"]).gains
    by_k = results_of_folder(run).metrics["max@k"]
    assert list(by_k) == [1, 2, 4]
    for column, (k, mean) in enumerate(by_k.items()):
        assert gains["truth"].mean[column] == pytest.approx(mean.mean, abs=1e-6)
        assert {gain.problems[column] for gain in gains.values()} == {mean.problems}
        assert mean.problems == (1 if k == 4 else 2)
    assert gains["random"].mean == pytest.approx([5 / 12, 5 / 12, 1 / 2])
    done = maxatk("select", run, "--by", "judge", "--k", 4, "--format", "csv")
    assert done.stdout.splitlines()[1] == "truth,4,1.0,,,1,0,1", done.stderr
    assert "(1 problem)" in maxatk("select", run, "--by", "judge", "--k", 4).stdout


def test_no_k_is_above_what_any_problem_has_with_a_score(tmp_path):
    scores = [
        Score("p", i, 1.0, 0, 1, Outcome.SCORED, 0.0, columns={"judge": 0.5} if i < 3 else {})
        for i in range(8)
    ]
    write_run(tmp_path / "run", scores)
    assert selection_gains(tmp_path / "run", ["judge"]).ks == (1, 2, 3)
    with pytest.raises(InvalidValueError, match="from 1 to the 3 samples"):
        selection_gains(tmp_path / "run", ["judge"], ks=[4])


def test_few_problems_have_the_interval_that_their_results_have(run):
    gain = selection_gains(run, ["judge"], ks=[1]).gains["truth"]
    metric = results_of_folder(run, ks=[1]).metrics["max@k"][1]
    assert (gain.low[0], gain.high[0]) == pytest.approx((metric.low, metric.high), abs=1e-6)


def test_a_run_by_a_column_is_chosen_from_by_that_column(tmp_path):
    judged = {"p": [(0.0, 3.0), (1.0, 2.0), (0.5, 1.0)], "q": [(1.0, 0.0), (0.0, 1.0), (0.0, 5.0)]}
    rows = [
        {"problem_id": p, "sample": i, "reward": reward, "judge": judge}
        for p, pairs in judged.items()
        for i, (reward, judge) in enumerate(pairs)
    ]
    write_jsonl(tmp_path / "s.jsonl", rows)
    results = score_rewards(tmp_path / "s.jsonl", tmp_path / "run", column="judge")
    gains = selection_gains(tmp_path / "run", ["judge"], ks=[1, 3]).gains
    by_k = results.metrics["max@k"]
    assert gains["truth"].mean == pytest.approx([by_k[1].mean, by_k[3].mean]) == [2.0, 4.0]
    assert gains["judge"].mean == pytest.approx(gains["truth"].mean)
    assert gains["random"].mean == pytest.approx([2.0, 2.0])


def test_equal_values_have_no_interval_in_the_table(maxatk, tmp_path):
    scores = [
        Score(p, i, 1.0, 0, 1, Outcome.SCORED, 0.0, columns={"judge": 0.5})
        for p in ("p", "q")
        for i in range(2)
    ]
    write_run(tmp_path / "run", scores)
    done = maxatk("select", "run", "--by", "judge", "--k", 1)
    assert done.returncode == 0, done.stderr
    assert "[" not in done.stdout
    assert "1.000" in done.stdout
    done = maxatk("select", "run", "--by", "judge", "--k", 1, "--format", "csv")
    assert done.stdout.splitlines()[1] == "truth,1,1.0,,,2,0,0"


def test_what_cannot_choose_is_refused_by_name(run, tmp_path):
    with pytest.raises(InvalidValueError, match=r"'likelyhood'.*did you mean 'likelihood'"):
        selection_gains(run, ["likelyhood"])
    with pytest.raises(InvalidValueError, match="from 1 to the 4 samples of a problem, got 5"):
        selection_gains(run, ["judge"], ks=[5])
    budget = [
        Score("p", s, 1.0, 0, 1, Outcome.SCORED, 0.0, columns={"turns=1": 1.0, "judge": 0.5})
        for s in range(2)
    ]
    write_run(tmp_path / "budget", budget)
    with pytest.raises(InvalidValueError, match="unknown value 'turns=1'; allowed: judge"):
        selection_gains(tmp_path / "budget", ["turns=1"])
    (run / "samples.jsonl").unlink()
    with pytest.raises(InvalidValueError, match=r"'majority' needs what samples.jsonl of .*judge"):
        selection_gains(run, ["majority"])
    with pytest.raises(MissingFileError, match=r"holds no scores.jsonl; select needs a folder"):
        selection_gains(tmp_path, ["judge"])
    with pytest.raises(MissingFileError, match=r"run: '.*/nowhere' does not exist"):
        selection_gains(tmp_path / "nowhere", ["judge"])
    write_run(tmp_path / "bare", [Score("p", s, 1.0, 0, 1, Outcome.SCORED, 0.0) for s in range(2)])
    with pytest.raises(InvalidValueError, match=r"'likelyhood' is no score of .*rewards alone"):
        selection_gains(tmp_path / "bare", ["likelyhood"])


def test_rules_of_scorio_choose_from_a_run_what_the_exact_ways_choose(tmp_path):
    rng = np.random.default_rng(4)
    answers = rng.integers(3, size=(40, 8))
    logprobs = rng.permuted(np.tile(-1.0 - np.arange(8), (40, 1)), axis=1)
    scores = [
        Score(f"p{p}", i, float(a == 0), 0, 1, Outcome.SCORED, 0.0, columns={"one": 1.0})
        for (p, i), a in np.ndenumerate(answers)
    ]
    samples = [
        Sample(f"p{p}", i, str(a), tokens=2, logprob=logprobs[p, i])
        for (p, i), a in np.ndenumerate(answers)
    ]
    write_run(tmp_path, scores, samples)
    best = "scorio:best_of_n:likelihood"
    vote = "scorio:weighted_majority_vote:one"
    gains = selection_gains(tmp_path, [best, vote, "likelihood", "majority"], ks=[1, 4, 8]).gains
    assert gains[best].mean[2] == gains["likelihood"].mean[2]
    assert gains[best].mean == pytest.approx(gains["likelihood"].mean, abs=0.02)
    assert gains[vote].mean == pytest.approx(gains["majority"].mean, abs=0.02)
    assert abs(gains["likelihood"].mean[1] - gains["majority"].mean[1]) > 0.04


@pytest.mark.parametrize("rule", SCORIO_RULES)
def test_every_rule_of_scorio_chooses_the_answer_of_most_votes_and_scores(tmp_path, rule):
    judged = [0.9, 0.8, 0.2, 0.7]
    scores = [
        Score("p", i, float(i != 2), 0, 1, Outcome.SCORED, 0.0, columns={"judge": judge})
        for i, judge in enumerate(judged)
    ]
    samples = [Sample("p", i, "wrong" if i == 2 else "right") for i in range(4)]
    write_run(tmp_path, scores, samples)
    way = f"scorio:{rule}:judge"
    assert selection_gains(tmp_path, [way], ks=[4]).gains[way].mean == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("scorio:mobb:judge", "unknown value 'scorio:mobb:judge'; allowed: scorio:best_of_maj"),
        ("scorio:filtered_vote", "names no scores; allowed: scorio:filtered_vote:COLUMN"),
        ("scorio:filtered_vote:judgd", "unknown value 'judgd'.*did you mean 'judge'"),
        ("scorio:logit_weighted_vote:likelihood", "transform='logit' requires every valid score"),
    ],
)
def test_a_rule_of_scorio_that_cannot_choose_is_refused(run, way, message):
    with pytest.raises(InvalidValueError, match=message):
        selection_gains(run, [way], ks=[1])


def test_without_scorio_its_rules_name_what_installs_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "scorio", None)
    monkeypatch.delitem(sys.modules, "scorio.aggregate", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'maxatk\[scorio\]'"):
        selection_gains(run, ["scorio:best_of_n:judge"])


def test_the_command_prints_every_way_of_choosing(maxatk, run):
    done = maxatk("select", run, "--by", "likelihood", "majority", "--k", 2, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[:2] for line in done.stdout.splitlines()] == [
        *(["by", "k"], ["truth", "2"], ["likelihood", "2"], ["majority", "2"], ["random", "2"])
    ]
    assert done.stdout.splitlines()[0].endswith(",problems,problems_left_out,samples_left_out")
    assert done.stdout.splitlines()[1].endswith(",2,0,1")
    text = " ".join(maxatk("select", run, "--by", "likelihood").stdout.split())
    assert "2 problems; left out without a reward or a score: samples 1, problems 0" in text
