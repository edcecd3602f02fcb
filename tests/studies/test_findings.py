"""A study's summary of its trainings, its record, and the figures made of it."""

import dataclasses
import json
import re

import numpy as np
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import RESULTS
from maxatk.folders import read_json, write_json
from maxatk.report.tables import share
from maxatk.studies.figures import FIGURES, write_figures
from maxatk.studies.findings import GRADIENT_SPIKES, Study
from maxatk.studies.tables import study_tables
from studies.conftest import SPIKED, STEADY


def test_gradient_spikes_are_a_percentile_in_medians_averaged_over_seeds(studied, build):
    base = studied("base", levels={})
    model = studied("spiked", STEADY, SPIKED, levels={"method": "spiked"})
    study = build([base, model])
    expected = np.mean([1.0, np.percentile([1.0, 2.0, 2.0, 9.0], 95) / 2.0])
    assert study.training["spiked"][GRADIENT_SPIKES] == pytest.approx(expected, abs=1e-3)
    assert study.training["base"] == {}
    header = study_tables(study)["training"].header
    assert "gradient p95/median" in header


@pytest.mark.parametrize("history", [[{"loss": 1.0}], [{"grad_norm": 0.0}, {"grad_norm": 0.0}]])
def test_without_gradients_there_are_no_spikes(studied, build, history):
    model = studied("still", history, history, levels={"method": "still"})
    study = build([studied("base", levels={}), model])
    assert GRADIENT_SPIKES not in study.training["still"]
    assert json.dumps(study.to_json(), allow_nan=False)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(seeded, build, tmp_path, name):
    write_figures(build(seeded([1])), tmp_path, [name])
    assert (tmp_path / f"{name}.svg").read_text().count("<svg") == 1
    assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


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
    models = seeded([1, 2, 3])
    study = build(models)
    for model in models:
        for seed, folder in model.evaluations.items():
            metrics = json.loads((folder / "results.json").read_text())["metrics"]
            found = study.by_seed[model.name][str(seed)]["max@k"]
            assert found == {k: cell["mean"] for k, cell in metrics["max@k"].items()}


def test_one_model_is_no_study(seeded, build):
    with pytest.raises(InvalidValueError, match="models: a study needs two models or more, got 1"):
        build(seeded([1])[:1])


def said_in(path):
    """The texts of an SVG figure: matplotlib draws them as outlines and notes what they say."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_a_heat_map_has_a_row_a_model_and_a_column_a_k(seeded, build, tmp_path):
    study = build(seeded([1]))
    write_figures(study, tmp_path, ["heat_map"])
    runs, ks = study.comparison.runs, study.comparison.ks
    means = [share(run.metric("max@k", k).mean) for run in runs for k in ks]
    assert sorted(said_in(tmp_path / "heat_map.svg")) == sorted(
        [*(run.name for run in runs), *(f"max@{k}" for k in ks), *means]
    )


def test_equal_studies_are_drawn_into_equal_files(seeded, build, tmp_path):
    study = build(seeded([1]))
    for name in FIGURES:
        for folder in ("one", "two"):
            write_figures(study, tmp_path / folder, [name])
        one, two = (tmp_path / folder / f"{name}.svg" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_study_of_one_problem_has_no_interval_and_every_figure(seeded, build, tmp_path):
    study = build(seeded([1], problems=1))
    assert study.comparison.baseline.metric("max@k", 1).low is None
    write_figures(study, tmp_path, list(FIGURES))
    assert {path.stem for path in tmp_path.iterdir()} == set(FIGURES)
    assert json.dumps(study.to_json(), allow_nan=False)
    (ends,) = {row[3].text for row in study_tables(study)["differences"].rows}
    assert ends == "–"


def test_seeds_that_share_their_problems_are_crossed_with_them(seeded, build, tmp_path):
    models = seeded([1, 2, 3])
    first = models[0].evaluations[1]
    shared = []
    for model in models:
        evaluations = {}
        for seed, folder in model.evaluations.items():
            found = read_json(folder / RESULTS)
            found["per_problem"]["ids"] = read_json(first / RESULTS)["per_problem"]["ids"]
            evaluations[seed] = tmp_path / f"{model.name}-{seed}"
            evaluations[seed].mkdir()
            write_json(evaluations[seed] / RESULTS, found)
        shared.append(dataclasses.replace(model, evaluations=evaluations))
    own, crossed = build(models), build(shared)
    assert (own.over, crossed.over) == ("seeds", "seeds and problems")
    assert own.comparison.baseline.problems == 3 * crossed.comparison.baseline.problems
    for one, other in zip(own.differences, crossed.differences, strict=True):
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
