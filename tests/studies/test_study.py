"""A study's summary of its trainings, and the figure of drift and gradient spikes."""

import json

import numpy as np
import pytest

from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.report.runs import RESULTS
from maxatk.studies.figures import write_figures
from maxatk.studies.study import GRADIENT_SPIKES, StudiedModel, build_study, pooled
from maxatk.studies.tables import study_tables

STEADY = [{"grad_norm": norm} for norm in (1.0, 1.0, 1.0, 1.0)]
SPIKED = [{"grad_norm": norm, "ratio/mean_abs_delta": 0.5} for norm in (1.0, 2.0, 2.0, 9.0)]


@pytest.fixture
def studied(tmp_path, results):
    """Return the model of a study over two seeds, with the log of each training."""

    def write(name, *histories, levels):
        evaluations, trainings = {}, {}
        for seed in (1, 2):
            evaluations[seed] = tmp_path / f"eval-{name}-{seed}"
            evaluations[seed].mkdir()
            write_json(evaluations[seed] / RESULTS, results["base"])
        for seed, history in enumerate(histories, start=1):
            trainings[seed] = tmp_path / f"train-{name}-{seed}"
            trainings[seed].mkdir()
            write_json(trainings[seed] / TRAIN_RECORD, {"log_history": history, "seconds": 2.0})
        return StudiedModel(name, levels, evaluations, trainings)

    return write


def build(models):
    return build_study(models, pooled(models), title="A study", baseline="base")


def test_gradient_spikes_are_a_percentile_in_medians_averaged_over_seeds(studied):
    base = studied("base", levels={})
    model = studied("spiked", STEADY, SPIKED, levels={"method": "spiked"})
    study = build([base, model])
    expected = np.mean([1.0, np.percentile([1.0, 2.0, 2.0, 9.0], 95) / 2.0])
    assert study.training["spiked"][GRADIENT_SPIKES] == pytest.approx(expected, abs=1e-3)
    assert study.training["base"] == {}
    header = study_tables(study)["training"].header
    assert "gradient p95/median" in header


@pytest.mark.parametrize("history", [[{"loss": 1.0}], [{"grad_norm": 0.0}, {"grad_norm": 0.0}]])
def test_without_gradients_there_are_no_spikes(studied, history):
    model = studied("still", history, history, levels={"method": "still"})
    study = build([studied("base", levels={}), model])
    assert GRADIENT_SPIKES not in study.training["still"]
    assert json.dumps(study.to_json(), allow_nan=False)


def test_the_figure_of_drift_has_a_column_for_every_axis(studied, tmp_path):
    one, two = (
        studied(f"model,{axis}=8", SPIKED, SPIKED, levels={"method": "model", axis: "8"})
        for axis in ("updates", "lag")
    )
    near = studied("near", STEADY, STEADY, levels={"method": "near"})
    write_figures(build([studied("base", levels={}), one, two, near]), tmp_path, ["drift"])
    drawn = (tmp_path / "drift.svg").read_text()
    for said in ("updates", "lag", "max@128", "gradient norms"):
        assert said in drawn
    assert "near" not in drawn  # its samples were all its own


def test_models_of_two_axes_are_crossed(studied):
    levels = [
        {"method": "one", "updates": "1"},
        {"method": "one", "updates": "8"},
        {"method": "two", "updates": "8"},
    ]
    models = [studied(f"model{i}", STEADY, STEADY, levels=of) for i, of in enumerate(levels)]
    study = build([studied("base", levels={}), *models])
    table = study_tables(study)["crossed"]
    mean = study.comparison.baseline.metric("max@k", 128)["mean"]
    said = f"{mean:.3f}".removeprefix("0")
    assert table.header == ("model", "metric", "updates=1", "updates=8")
    rows = [tuple(cell.text for cell in row) for row in table.rows]
    assert rows[2:] == [("one", "max@128", said, said), ("two", "max@128", "–", said)]


def test_models_of_one_axis_have_nothing_to_cross(studied):
    model = studied("model", STEADY, STEADY, levels={"method": "model"})
    assert "crossed" not in study_tables(build([studied("base", levels={}), model]))
