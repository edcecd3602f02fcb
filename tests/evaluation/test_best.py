"""The best of n samples: by the tests, by another score, and what choosing gains in a run."""

import dataclasses
import itertools
import json
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maxatk
from maxatk.errors import (
    InvalidValueError,
    MissingDependencyError,
    MissingFileError,
    ServerError,
)
from maxatk.evaluation import solve
from maxatk.evaluation.best import SCORIO_RULES, answer_of, select
from maxatk.evaluation.open import results_of_folder
from maxatk.evaluation.submissions import program_key
from maxatk.objectives import max_at_k
from maxatk.records import Outcome, Problem, Sample, Score, TestCase, TestResult, Verdict
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings
from maxatk.verifier import Verifier, extract_code
from processes import patience
from runs import evaluated, rows_of, scored, write_run, write_samples
from sampling.servers import serving

SETTINGS = SamplingSettings(max_new_tokens=4)
OTHERS = SamplingSettings(max_new_tokens=4, seed=3)
SOLVABLE = Problem(
    "p0", "print(1)\n", (TestCase(input="", output="1\n"), TestCase(input="", output="1"))
)
HARD = Problem(
    "p0", "print(1)\n", (TestCase(input="", output="1\n"), TestCase(input="", output="no\n"))
)
VISIBLE = (TestCase(input="", output="1\n"), TestCase(input="x", output="2\n"))
PROBLEM = Problem(
    "p", "print(1)\n", (TestCase(input="", output="3\n"),), visible_tests=VISIBLE, answer="3"
)


def test_it_finds_what_an_evaluation_of_the_same_samples_finds(tiny_model, verifier, tmp_path):
    given = {
        "settings": SETTINGS,
        "model_settings": ModelSettings(batch_size=1),
        "verifier": verifier,
    }
    found = maxatk.solve(tiny_model, SOLVABLE, n=64, **given)
    settings = dataclasses.replace(SETTINGS, samples=64)
    evaluated(tiny_model, [SOLVABLE], tmp_path, **{**given, "settings": settings})
    scores = rows_of(tmp_path / "scores.jsonl")
    drawn = len(found.rewards)
    assert list(found.rewards) == [score["reward"] for score in scores[:drawn]]
    assert found.outcomes == Counter(score["outcome"] for score in scores[:drawn])
    first = [score["reward"] for score in scores].index(1.0)
    assert first < drawn < 64  # it stops after a program that passes
    assert (found.sample, found.reward, found.passed, found.total) == (first, 1.0, 2, 2)
    assert found.solved
    assert found.completion == rows_of(tmp_path / "samples.jsonl")[first]["completion"]
    assert verifier.verify(found.program, SOLVABLE.tests).reward == 1.0


def test_an_unsolved_problem_gives_the_best_there_is(tiny_model, verifier):
    reports = []
    found = solve(
        *(tiny_model, HARD),
        **{"n": 12, "settings": SETTINGS, "verifier": verifier},
        progress=lambda *report: reports.append(report),
    )
    assert (found.reward, found.passed, found.solved) == (0.5, 1, False)
    assert found.rewards.index(0.5) == found.sample
    assert reports == sorted(reports)
    assert reports[-1] == (12, 12)


class Lost(Verifier):
    """A verifier that loses every second program to its own failure."""

    seen = 0

    def verify_stream(self, items, **settings):
        first, self.seen = self.seen, self.seen + len(items)  # however long a batch is
        lost = Verdict((TestResult(Outcome.INFRA_ERROR),))
        for index, verdict in super().verify_stream(items, **settings):
            yield index, lost if (first + index) % 2 == 0 else verdict


def test_programs_that_could_not_be_verified_are_no_zeros(tiny_model):
    with Lost(workers=1) as lost:
        given = {"settings": SETTINGS, "verifier": lost}
        some = solve(tiny_model, HARD, n=24, **given)
        none = solve(tiny_model, SOLVABLE, n=1, **given)
    assert some.rewards[::2] == (None,) * 12
    assert some.sample % 2 == 1
    assert (none.program, none.reward, none.solved, none.rewards) == (None, None, False, (None,))
    assert none.outcomes == {"infra_error": 1}


def test_a_server_that_fails_ends_it_and_leaves_no_thread(verifier):
    before = threading.active_count()
    with serving([400]) as server:
        asked = ModelSettings("openai", server=ServerSettings(url=server.url, concurrency=1))
        with pytest.raises(ServerError):
            solve("m", SOLVABLE, n=8, model_settings=asked, verifier=verifier)
    until = time.monotonic() + patience(10)  # the server's thread of a connection ends by itself
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_wrong_number_is_refused(tiny_model, n):
    with pytest.raises(InvalidValueError, match="n: must be an integer of 1 or more"):
        solve(tiny_model, SOLVABLE, n=n)


@pytest.fixture(scope="module")
def drawn(tiny_model, verifier, tmp_path_factory):
    """The samples and scores of an evaluation with the same settings."""
    out = tmp_path_factory.mktemp("run")
    settings = dataclasses.replace(OTHERS, samples=8)
    evaluated(tiny_model, [PROBLEM], out, settings=settings, verifier=verifier)
    return rows_of(out / "samples.jsonl"), rows_of(out / "scores.jsonl")


def chosen(tiny_model, verifier, by, problem=PROBLEM):
    return solve(tiny_model, problem, by=by, n=8, settings=OTHERS, verifier=verifier)


def test_an_evaluation_stores_the_share_of_visible_tests(drawn):
    samples, scores = drawn
    for sample, row in zip(samples, scores, strict=True):
        printed = sample["completion"]
        if printed == "print(1)":
            assert row["columns"] == {"visible_tests": 0.5}
    assert all(row["columns"]["visible_tests"] in (0.0, 0.5) for row in scores)
    assert all(row["total"] == 1 for row in scores)


def test_the_likeliest_sample_and_that_of_most_visible_tests(tiny_model, verifier, drawn):
    samples, scores = drawn
    found = chosen(tiny_model, verifier, "likelihood")
    assert found.rewards == pytest.approx([sample["logprob"] for sample in samples])
    assert found.reward == max(found.rewards)
    assert found.completion == samples[found.sample]["completion"]
    visible = [row["columns"]["visible_tests"] for row in scores]
    found = chosen(tiny_model, verifier, "visible-tests")
    assert list(found.rewards) == visible
    assert found.sample == visible.index(max(visible))


def test_the_program_that_most_samples_write(tiny_model, verifier, drawn):
    keys = [program_key(extract_code(sample["completion"])) for sample in drawn[0]]
    counts = Counter(keys)
    found = chosen(tiny_model, verifier, "majority")
    assert list(found.rewards) == [counts[key] for key in keys]
    assert counts[keys[found.sample]] == max(counts.values())


@pytest.mark.parametrize("by", ["oracle", "answer", "own.py:function"])
def test_the_oracle_does_not_choose(tiny_model, verifier, by):
    with pytest.raises(
        InvalidValueError, match=rf"select: unknown value '{by}'; allowed: likelihood"
    ):
        chosen(tiny_model, verifier, by)


def test_the_nearest_way_of_choosing_is_named(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="did you mean 'likelihood'"):
        chosen(tiny_model, verifier, "likelyhood")


def test_a_problem_without_visible_tests_is_refused(tiny_model, verifier):
    with pytest.raises(InvalidValueError, match="'p' has no visible_tests"):
        chosen(tiny_model, verifier, "visible-tests", Problem("p", "x"))


def test_the_command_solves_a_problem_without_tests(maxatk, tiny_model, tmp_path):
    (tmp_path / "prompt.txt").write_text("print(1)\n")
    done = maxatk(
        *("solve", "--model", tiny_model, "--prompt", "prompt.txt", "--select", "likelihood"),
        *("-n", 4, "--max-new-tokens", 4, "--verifier.workers", 1),
        *("--format", "json", "--progress", "none"),
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rewards"]) == 4


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
    write_run(tmp_path / "run", scores, samples)
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
    metric = results_of_folder(run, ks=[1]).metrics["max@k"][1]
    assert (gain.low[0], gain.high[0]) == pytest.approx((metric.low, metric.high), abs=1e-6)


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
    best, vote = "scorio:best_of_n:likelihood", "scorio:weighted_majority_vote:one"
    gains = select(tmp_path, [best, vote, "likelihood", "majority"], ks=[1, 4, 8]).gains
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
    assert select(tmp_path, [way], ks=[4]).gains[way].mean == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("scorio:mobb:judge", "unknown value 'scorio:mobb:judge'; allowed: scorio:best_of_maj"),
        ("scorio:filtered_vote", "names no scores; allowed: scorio:filtered_vote:COLUMN"),
        ("scorio:filtered_vote:judgd", "unknown value 'judgd'.*did you mean 'judge'"),
        ("scorio:logit_weighted_vote:likelihood", "transform='logit' requires every valid score"),
    ],
)
def test_a_rule_of_scorio_that_cannot_choose_is_refused(run, way, said):
    with pytest.raises(InvalidValueError, match=said):
        select(run, [way], ks=[1])


def test_without_scorio_its_rules_name_what_installs_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "scorio", None)
    monkeypatch.delitem(sys.modules, "scorio.aggregate", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'maxatk\[scorio\]'"):
        select(run, ["scorio:best_of_n:judge"])


def test_the_command_prints_every_way_of_choosing(maxatk, run):
    done = maxatk("select", run, "--by", "likelihood", "majority", "--k", 2, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[:2] for line in done.stdout.splitlines()] == [
        *(["by", "k"], ["truth", "2"], ["likelihood", "2"], ["majority", "2"], ["random", "2"])
    ]
