import itertools
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.histograms import histogram
from maxatk.evaluation.pooling import pool_results
from maxatk.evaluation.score_tally import ScoreTally
from maxatk.records import Outcome, Sample, Score
from maxatk.report.comparison import pooled
from maxatk.report.load_runs import load_comparison
from maxatk.report.notices import notices

PARTS = {"seed 1": 0.2, "seed 2": 0.6}


def draw(part, scale, *, prefix="", problems=6, samples=16, entropy=True):
    """The scores and samples of one part, its problem ids behind `prefix`."""
    random = np.random.default_rng(int(scale * 10))
    ids = [f"{prefix}p{number}" for number in range(problems)]
    scores = []
    texts = []
    for problem_id in ids:
        for index in range(samples):
            reward = float(random.integers(0, 5)) / 4 * (random.random() < scale)
            unscored = index == 3 and problem_id.endswith("p0")
            outcome = Outcome.INFRA_ERROR if unscored else Outcome.WRONG_ANSWER
            reward = None if unscored else reward
            scores.append(Score(problem_id, index, reward, 0, 4, outcome, 0.0, str(index % 5)))
            nats = float(random.gamma(10 * scale)) if entropy else None
            length = int(random.integers(1, 9))
            texts.append(Sample(problem_id, index, str(index % 7), tokens=length, entropy=nats))
    return ids, texts, scores


def results_of(*drawn, **manifest):
    ids, texts, scores = ([row for part in drawn for row in part[place]] for place in range(3))
    return build_results(ids, texts, scores, manifest=manifest)


def parts(**options):
    return {name: results_of(draw(name, scale, **options)) for name, scale in PARTS.items()}


def test_pooled_results_are_those_of_all_problems_at_once():
    all_parts = pool_results(parts())
    whole = results_of(*(draw(name, s, prefix=f"{name}/") for name, s in PARTS.items()))
    for name in ("per_problem", "counts", "diversity", "interval"):
        assert getattr(all_parts, name) == getattr(whole, name), name
    for metric, by_k in whole.metrics.items():
        for k, cell in by_k.items():  # the values of the parts were rounded to six digits
            assert asdict(all_parts.metrics[metric][k]) == pytest.approx(asdict(cell), abs=2e-6)
    entropy = all_parts.entropy
    expected = whole.entropy
    assert (entropy.samples, entropy.unit) == (expected.samples, "nats")
    assert entropy.token_mean == pytest.approx(expected.token_mean, abs=1e-5)
    assert entropy.tokens_mean == pytest.approx(expected.tokens_mean, abs=1e-5)
    assert entropy.sequence.mean == pytest.approx(expected.sequence.mean, abs=1e-5)
    assert entropy.sequence.histogram == expected.sequence.histogram


def test_a_problem_that_every_part_has_counts_once():
    settings = {"problems": {"count": 6, "sha256": "aa"}}
    once = results_of(draw("a", 0.6), settings=settings)
    twice = pool_results({"seed 1": once, "seed 2": once})
    for metric, by_k in once.metrics.items():  # twice the same adds nothing, no certainty
        for k, cell in by_k.items():
            assert asdict(twice.metrics[metric][k]) == pytest.approx(asdict(cell), abs=2e-6)
    other = results_of(draw("b", 0.2), settings=settings)
    cell = pool_results({"seed 1": once, "seed 2": other}).metrics["max@k"][1]
    values = [part.per_problem.values["max@k"][1] for part in (once, other)]
    assert cell.mean == pytest.approx(np.mean(values), abs=1e-6)
    assert cell.problems == 6


def test_only_common_k_and_common_settings_stay():
    problems = {"count": 6, "sha256": "aa"}
    one = results_of(
        draw("a", 0.2),
        settings={
            "sampling": {"seed": 1, "samples": 16},
            "problems": problems,
            "verifier": {"t": 1},
        },
    )
    two = results_of(
        draw("b", 0.6, samples=8),
        settings={
            "sampling": {"seed": 2, "samples": 16},
            "problems": problems,
            "verifier": {"t": 1},
        },
    )
    results = pool_results({"a": one, "b": two})
    assert results.ks == [1, 2, 4, 8]
    assert results.manifest["settings"] == {
        "problems": {"count": 12, "sha256": "aa+aa"},
        "verifier": {"t": 1},
    }


def test_what_one_part_does_not_know_the_pool_does_not_know():
    some = parts()
    some["seed 2"] = results_of(draw("seed 2", 0.6, entropy=False))
    assert pool_results(some).entropy is None


def judged(ids, *, threshold=0.5, column=None, reason="length"):
    """Results of two samples of each problem, one with the reward 0.5 and one with 0."""
    texts = []
    scores = []
    for problem_id, index in itertools.product(ids, range(2)):
        reward = 0.5 * index
        texts.append(Sample(problem_id, index, "", finish_reason=reason))
        scores.append(
            Score(problem_id, index, reward, 0, 0, Outcome.SCORED, 0.0, columns={"judge": reward})
        )
    tally = ScoreTally(scores, column=column)
    return build_results(ids, texts, tally, manifest={}, threshold=threshold)


def test_what_passes_the_column_and_how_samples_ended_are_those_of_the_parts():
    parts = {
        "seed 1": judged(["a", "b"], column="judge"),
        "seed 2": judged(["c"], column="judge", reason="stop"),
    }
    result = pool_results(parts)
    assert (result.threshold, result.column) == (0.5, "judge")
    assert result.finish_reasons == {"length": 4, "stop": 2}
    assert result.metrics["pass@k"][2].mean == 1.0
    parts["seed 2"] = judged(["c"], column="judge", reason=None)
    assert pool_results(parts).finish_reasons is None


def test_a_page_of_several_seeds_says_what_that_of_one_says():
    of_one = load_comparison({"base": judged(["a", "b"])})
    of_two = pooled({"seed 1": of_one, "seed 2": load_comparison({"base": judged(["c", "d"])})})
    assert of_two.passes == of_one.passes == "has a reward of 0.5 or more"
    assert [n.id for n in notices(of_two)] == [n.id for n in notices(of_one)]
    assert "cut-off" in [n.id for n in notices(of_two)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"threshold": 1.0}, r"threshold: must be the same in all parts, got 0\.5 and 1\.0"),
        ({"column": "judge"}, "column: must be the same in all parts, got None and 'judge'"),
    ],
)
def test_parts_that_measure_something_else_are_refused(other, message):
    with pytest.raises(InvalidValueError, match=message):
        pool_results({"seed 1": judged(["a"]), "seed 2": judged(["b"], **other)})


def test_no_parts_are_refused():
    with pytest.raises(InvalidValueError, match="at least one"):
        pool_results({})


@given(st.lists(st.floats(0, 1e4), max_size=50))
def test_histogram_counts_every_value_in_its_bin(values):
    bins = histogram(values)
    width = bins.width
    counts = bins.counts
    assert np.log2(width) == int(np.log2(width))
    assert sum(counts) == len(values)
    assert len(counts) <= 129
    for value in values:
        assert counts[int(value / width)] > 0
