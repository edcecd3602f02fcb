"""The best of k by another score: against the mean over all subsets, counted one by one."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.evaluation.recount import results_of_folder
from maxatk.evaluation.score_selection import answer_of, select
from maxatk.jsonl import write_jsonl
from maxatk.objectives import max_at_k
from maxatk.records import Outcome, Sample, Score

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
    found = max_at_k(rewards, ks, selection=scores)
    assert found == pytest.approx([by_hand(rewards, scores, k) for k in ks])
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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"7 so \boxed{ 12 } pens", "12"),
        ("3+4=7\n8.5", "8.5"),
        (" Paris ", "Paris"),
    ],
)
def test_an_answer_is_boxed_or_the_last_number_or_the_text(text, answer):
    assert answer_of(text) == answer


@pytest.fixture
def run(tmp_path):
    rewards = {"p": [0, 1, 0, 1], "q": [0, 0, 1, None]}
    logprobs = {"p": [-4.0, -1.0, -3.0, -2.0], "q": [-1.0, -2.0, -3.0, -4.0]}
    scores = [
        Score(p, i, r, 0, 1, Outcome.SCORED, 0.0, columns={} if r is None else {"judge": float(r)})
        for p, found in rewards.items()
        for i, r in enumerate(found)
    ]
    samples = [
        Sample(p, i, str(i % 2), tokens=2, logprob=value)
        for p, found in logprobs.items()
        for i, value in enumerate(found)
    ]
    write_jsonl(tmp_path / "run/scores.jsonl", (s.to_json() for s in scores))
    write_jsonl(tmp_path / "run/samples.jsonl", (s.to_json() for s in samples))
    return tmp_path / "run"


def test_a_run_is_chosen_from_by_any_of_its_numbers(run):
    found = select(run, ["likelihood", "judge", "majority"], ks=[1, 3])
    assert list(found.gains) == ["truth", "likelihood", "judge", "majority", "random"]
    assert found.gains["judge"].mean == pytest.approx(found.gains["truth"].mean)
    assert found.gains["truth"].mean == pytest.approx([(1 / 2 + 1 / 3) / 2, 1.0])
    assert found.gains["likelihood"].mean[1] == pytest.approx((1 + 0) / 2)
    votes = [([0, 1, 0, 1], "0101"), ([0, 0, 1], "010")]
    by_votes = [np.mean([votes_by_hand(*problem, k) for problem in votes]) for k in (1, 3)]
    assert found.gains["majority"].mean == pytest.approx(by_votes)
    assert found.gains["random"].mean == pytest.approx([(1 / 2 + 1 / 3) / 2] * 2)
    assert (found.problems, found.left_out) == (2, 0)


def test_few_problems_have_the_interval_that_their_results_have(run):
    gain = select(run, ["judge"], ks=[1]).gains["truth"]
    metric = results_of_folder(run, ks=[1])["metrics"]["max@k"]["1"]
    assert (gain.low[0], gain.high[0]) == pytest.approx((metric["low"], metric["high"]), abs=1e-6)


def test_what_cannot_choose_is_refused_by_name(run, tmp_path):
    with pytest.raises(InvalidValueError, match=r"'likelyhood'.*did you mean 'likelihood'"):
        select(run, ["likelyhood"])
    with pytest.raises(InvalidValueError, match="from 1 to the 3 samples of a problem, got 4"):
        select(run, ["judge"], ks=[4])
    (run / "samples.jsonl").unlink()
    with pytest.raises(InvalidValueError, match=r"'majority' needs what samples.jsonl of .*judge"):
        select(run, ["majority"])
    with pytest.raises(MissingFileError, match=r"holds no scores.jsonl; select needs a folder"):
        select(tmp_path, ["judge"])


def test_the_command_prints_every_way_of_choosing(maxatk, run):
    done = maxatk("select", run, "--by", "likelihood", "majority", "--k", 2, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[:2] for line in done.stdout.splitlines()] == [
        *(["by", "k"], ["truth", "2"], ["likelihood", "2"], ["majority", "2"], ["random", "2"])
    ]
