"""A study's summary of its trainings, its record, and the figures made of it."""

import dataclasses
import json

import numpy as np
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.folders import TRAIN_RECORD, read_json, write_json
from maxatk.studies.findings import GRADIENT_SPIKES, Study
from maxatk.studies.findings_tables import study_tables
from studies.conftest import SPIKED, STEADY


def test_gradient_spikes_are_a_percentile_in_medians_averaged_over_seeds(studied, build):
    base = studied(levels={})
    model = studied(STEADY, SPIKED, levels={"method": "spiked"})
    study = build([*base, *model])
    expected = np.mean([1.0, np.percentile([1.0, 2.0, 2.0, 9.0], 95) / 2.0])
    assert study.models["spiked"]["training"][GRADIENT_SPIKES] == pytest.approx(expected, abs=1e-3)
    assert study.models["base"]["training"] == {}
    header = study_tables(study)["training"].header
    assert "gradient p95/median of a training, mean over seeds" in header


@pytest.mark.parametrize("history", [[{"loss": 1.0}], [{"grad_norm": 0.0}, {"grad_norm": 0.0}]])
def test_without_gradients_there_are_no_spikes(studied, build, history):
    model = studied(history, history, levels={"method": "still"})
    study = build([*studied(levels={}), *model])
    assert GRADIENT_SPIKES not in study.models["still"]["training"]
    assert json.dumps(study.to_json(), allow_nan=False)


def test_the_seconds_of_a_training_that_was_resumed_do_not_count(studied, build):
    base = studied(levels={})
    model = studied(STEADY, STEADY, levels={"method": "killed"})
    record = read_json(model[0].training / TRAIN_RECORD)
    resumed = {**record, "seconds": 0.5, "resumed_from": "checkpoint-7"}  # since the checkpoint
    write_json(model[0].training / TRAIN_RECORD, resumed)
    assert build([*base, *model]).models["killed"]["training"]["seconds"] == 2.0
    write_json(model[1].training / TRAIN_RECORD, resumed)
    assert "seconds" not in build([*base, *model]).models["killed"]["training"]


@pytest.mark.parametrize("seeds", [[1], [1, 2, 3]])
def test_a_study_is_the_same_after_being_written_and_read(seeded, build, seeds):
    study = build(seeded(seeds), pairs=[("better", "same")])
    written = json.loads(json.dumps(study.to_json(), allow_nan=False))
    again = Study.from_json(written)
    assert again.to_json() == study.to_json()
    assert study_tables(again) == study_tables(study)
    with pytest.raises(DataError, match="format must be 3, got 1"):
        Study.from_json({**written, "format": 1})


def test_by_seed_holds_the_means_of_each_seed(seeded, build):
    all_models = seeded([1, 2, 3])
    study = build(all_models)
    for seeded_model in all_models:
        metrics = json.loads((seeded_model.evaluation / "results.json").read_text())["metrics"]
        means = study.models[seeded_model.variant.name]["by_seed"][str(seeded_model.seed)]["max@k"]
        assert means == {k: cell["mean"] for k, cell in metrics["max@k"].items()}


def test_one_model_is_no_study(seeded, build):
    with pytest.raises(InvalidValueError, match="models: a study needs two models or more, got 1"):
        build(seeded([1])[:1])


def test_a_study_of_one_problem_has_no_interval(seeded, build):
    study = build(seeded([1], problems=1))
    assert study.comparison.baseline.metric("max@k", 1).low is None
    assert json.dumps(study.to_json(), allow_nan=False)
    (ends,) = {row[3].text for row in study_tables(study)["differences"].rows}
    assert ends == "–"


def test_seeds_that_share_their_problems_are_crossed_with_them(seeded, build, tmp_path):
    all_models = seeded([1, 2, 3])
    first = all_models[0].evaluation
    shared = []
    for seeded_model in all_models:
        results = read_json(seeded_model.evaluation / RESULTS)
        results["per_problem"]["ids"] = read_json(first / RESULTS)["per_problem"]["ids"]
        folder = tmp_path / seeded_model.evaluation.name
        folder.mkdir()
        write_json(folder / RESULTS, results)
        shared.append(dataclasses.replace(seeded_model, evaluation=folder))
    nested = build(all_models)
    crossed = build(shared)
    assert (nested.over, crossed.over) == ("seeds", "seeds and problems")
    assert nested.comparison.baseline.problems == 3 * crossed.comparison.baseline.problems
    for one, other in zip(nested.differences, crossed.differences, strict=True):
        assert one.by_seed == other.by_seed
        assert one.prompts_low != other.prompts_low
    heading = "95%, other seeds and other problems"
    assert study_tables(crossed)["differences"].header[3] == heading


@pytest.mark.parametrize("seeds", [[1], [1, 2]])
def test_one_or_two_seeds_say_nothing_of_other_trainings(seeded, build, seeds):
    study = build(seeded(seeds), pairs=[("better", "same")])
    assert study.over == "problems"
    for test in (*study.leaders, *study.differences, *study.pairs):
        assert (test.p, test.adjusted_p, test.significant) == (None, None, False)
        assert (test.low, test.high) == (test.prompts_low, test.prompts_high)
    assert not any("*" in cell.text for row in study_tables(study)["scores"].rows for cell in row)


def test_a_study_says_when_a_model_chose_its_problems(seeded, build):
    all_models = seeded([1, 2, 3])
    assert build(all_models).selection is None
    for seeded_model in all_models:
        path = seeded_model.evaluation / RESULTS
        results = read_json(path)
        fields = {"selected_by": "0 < max@1 < 1 of 8 samples of base"}
        results["per_problem"]["meta"] = [fields for _ in results["per_problem"]["ids"]]
        write_json(path, results)
    study = build(all_models)
    assert "chosen by a model's own rewards (0 < max@1 < 1 of 8 samples of base)" in study.selection
    assert Study.from_json(study.to_json()).selection == study.selection
