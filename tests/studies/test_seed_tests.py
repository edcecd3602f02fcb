"""The tests between the models of a study are over its seeds, paired within each."""

import dataclasses
import json

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.statistics.paired import paired_difference
from maxatk.evaluation.statistics.seeds import seed_difference
from maxatk.evaluation.statistics.significance import adjusted_p_values
from maxatk.folders import write_json
from maxatk.studies.findings import StudiedModel

SEEDS = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def models(seeded):
    return seeded(SEEDS)


def values(models, name, seed, metric, k):
    model = next(model for model in models if model.name == name)
    found = json.loads((model.evaluations[seed] / "results.json").read_text())
    return np.array(found["per_problem"][metric][str(k)], dtype=np.float64)


def test_a_test_is_over_the_paired_means_of_the_seeds(models, build):
    for test in build(models).differences:
        metric, k = test.measure.metric, test.measure.k
        moved = [
            values(models, test.first, seed, metric, k) - values(models, "base", seed, metric, k)
            for seed in SEEDS
        ]
        expected = seed_difference([float(d.mean()) for d in moved])
        assert test.over_seeds.by_seed == pytest.approx(expected.by_seed)
        assert test.over_seeds.p == pytest.approx(expected.p)
        prompts = np.concatenate(moved)[:, None]
        found = paired_difference(prompts, 0 * prompts)
        assert (test.prompts_low, test.prompts_high) == pytest.approx((found.low[0], found.high[0]))


def test_each_list_is_corrected_by_itself(models, build):
    study = build(models, pairs=[("better", "same"), ("same", "base")])
    assert [len(tests) for tests in (study.leaders, study.differences, study.pairs)] == [4, 8, 4]
    for tests in (study.leaders, study.differences, study.pairs):
        adjusted = adjusted_p_values([test.over_seeds.p for test in tests])
        assert [test.adjusted_p for test in tests] == adjusted
        assert [test.significant for test in tests] == [p <= study.alpha for p in adjusted]
    assert {test.significant for test in study.differences} == {True, False}


def test_the_best_is_tested_against_the_second_best(models, build):
    study = build(models)
    for test in study.leaders:
        means = [
            study.comparison.means(test.measure.metric, test.measure.k)[n]["mean"]
            for n in (test.first, test.second)
        ]
        assert means[0] >= means[1]
        assert test.first == "better"


def test_problems_without_a_value_leave_their_pair(models, build, tmp_path):
    base, better, _ = models
    found = json.loads((better.evaluations[1] / RESULTS).read_text())
    found["per_problem"]["max@k"]["1"][0] = None
    write_json(tmp_path / RESULTS, found)
    lost = dataclasses.replace(better, evaluations={**better.evaluations, 1: tmp_path})
    test = next(t for t in build([base, lost]).differences if t.measure.name == "max@1")
    moved = values(models, "better", 1, "max@k", 1) - values(models, "base", 1, "max@k", 1)
    assert test.over_seeds.by_seed[0] == pytest.approx(moved[1:].mean())


def test_what_is_sure_over_prompts_need_not_be_over_seeds(build, seeded):
    models = seeded(SEEDS, problems=40)
    weak, strong = ({seed: model.evaluations[seed] for seed in SEEDS} for model in models[:2])
    turned = [weak | {4: strong[4]}, strong | {4: weak[4]}]  # one training goes the other way
    names = ({"base": {}, "odd": {"method": "odd"}}).items()
    base, odd = (
        StudiedModel(name, levels, evaluations, {})
        for (name, levels), evaluations in zip(names, turned, strict=True)
    )
    for test in build([base, odd]).differences:
        assert test.over_seeds.above == 3
        assert test.over_seeds.low < 0 < test.over_seeds.high
        assert not test.significant
        assert test.prompts_low > 0


def test_the_name_of_no_model_is_refused(models, build):
    with pytest.raises(InvalidValueError, match=r"pairs: unknown value 'beter'.*did you mean"):
        build(models, pairs=[("beter", "same")])
