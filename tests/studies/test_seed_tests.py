"""The tests between the models of a study are over its seeds, paired within each."""

import dataclasses
import json

import numpy as np
import pytest

from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.folders import write_json
from maxatk.statistics.significance import adjusted_p_values
from maxatk.studies.variants import Variant

SEEDS = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def models(seeded):
    return seeded(SEEDS)


def test_each_list_is_corrected_by_itself(models, build):
    study = build(models, pairs=[("better", "same"), ("same", "base")])
    assert [len(tests) for tests in (study.leaders, study.differences, study.pairs)] == [4, 8, 4]
    for tests in (study.leaders, study.differences, study.pairs):
        adjusted = adjusted_p_values([test.p for test in tests])
        assert [test.adjusted_p for test in tests] == adjusted
        assert [test.significant for test in tests] == [p <= study.alpha for p in adjusted]
    assert {test.significant for test in study.differences} == {True, False}


def test_the_best_is_tested_against_the_second_best(models, build):
    study = build(models)
    for test in study.leaders:
        means = [
            study.comparison.run(name).metric(test.measure.metric, test.measure.k).mean
            for name in (test.first, test.second)
        ]
        assert means[0] >= means[1]
        assert test.first == "better"


def test_problems_without_a_value_leave_their_pair(models, build, tmp_path):
    base = models[:4]
    better = models[4:8]
    results = json.loads((better[0].evaluation / RESULTS).read_text())
    results["per_problem"]["max@k"]["1"][0] = None
    write_json(tmp_path / RESULTS, results)
    lost = [dataclasses.replace(better[0], evaluation=tmp_path), *better[1:]]
    test = next(t for t in build([*base, *lost]).differences if t.measure.name == "max@1")
    columns = [
        json.loads((seeded_model.evaluation / RESULTS).read_text())["per_problem"]["max@k"]["1"]
        for seeded_model in (better[0], base[0])
    ]
    assert test.by_seed[0] == pytest.approx(np.subtract(*columns)[1:].mean())


def test_what_is_sure_over_prompts_need_not_be_over_seeds(build, seeded):
    models = seeded(SEEDS, problems=40)
    weak = models[:4]
    strong = models[4:8]
    turned = [*weak[:3], strong[3]], [*strong[:3], weak[3]]  # one training goes the other way
    all_models = [
        dataclasses.replace(seeded_model, variant=Variant(levels, {}))
        for levels, group in zip(({}, {"method": "odd"}), turned, strict=True)
        for seeded_model in group
    ]
    for test in build(all_models).differences:
        assert test.above == 3
        assert test.low < 0 < test.high
        assert not test.significant
        assert test.prompts_low > 0


def test_the_name_of_no_model_is_refused(models, build):
    with pytest.raises(InvalidValueError, match=r"model: unknown value 'beter'.*did you mean"):
        build(models, pairs=[("beter", "same")])
