"""The set-up of a page: what every model is, and what the evaluations had in common."""

import copy

import pytest

from maxatk.objectives import METHODS
from maxatk.records import Outcome, Score
from maxatk.report import write_report
from maxatk.report.load_runs import Reading, load_comparison
from maxatk.report.recorded_settings import (
    described,
    models_table,
    setting_differences,
    settings_table,
)
from runs import write_run

TRAINER = {"method": "bon_loo1", "k": 8, "max_steps": 40, "learning_rate": 1.5e-4}


def by_model(table):
    return {
        name: {row[0].text: row[place].text for row in table.rows}
        for place, name in enumerate(table.header[1:], start=1)
    }


@pytest.fixture
def changed(results):
    """Results whose second run has other settings, and a training in its manifest."""
    runs = {name: copy.deepcopy(results[name]) for name in ("base", "same")}
    runs["same"]["manifest"]["settings"]["sampling"]["temperature"] = 0.7
    runs["same"]["manifest"]["training"] = {"trainer": TRAINER}
    runs["base"]["manifest"]["settings"]["sampling"]["temperature"] = 1.0
    return runs


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described_in_a_line(name):
    text = described(METHODS[name], 8)
    assert text.startswith("trained for ")
    assert METHODS[name].source in text
    assert "@k" not in text
    assert "\n" not in text


def test_a_model_is_described_by_its_training(changed):
    comparison = load_comparison(changed)
    rows = by_model(models_table(comparison, {}))
    assert rows["base"]["what it is"] == "the model before training"
    assert rows["same"]["what it is"].startswith("trained for max@8 (")
    assert (rows["same"]["method"], rows["same"]["k"]) == ("bon_loo1", "8")
    assert (rows["same"]["max_steps"], rows["same"]["learning_rate"]) == ("40", "0.00015")
    assert rows["base"]["max_steps"] == "–"


def test_a_training_that_is_passed_in_serves_runs_without_a_record(results):
    comparison = load_comparison({name: results[name] for name in ("base", "sharp")})
    rows = by_model(models_table(comparison, {"sharp": {"trainer": {"method": "grpo", "k": 8}}}))
    assert rows["sharp"]["method"] == "grpo"
    assert "k" not in rows["sharp"]
    assert rows["base"]["what it is"] == "the model before training"
    assert models_table(comparison, {}).rows == ()
    shown = {row[0].text: row[1].text for row in settings_table(comparison).rows}
    assert shown["model.model"] == "runs/2 (base); runs/1 (sharp)"


@pytest.mark.parametrize(
    ("recipe", "what"),
    [
        ({"trainer": {"max_steps": 4}}, "trained by the default method"),
        ({"trainer": {"method": {"credit": {"cvar": 0.25, "of": 4}}}}, "by a method of its own"),
        ({"k": 8, "rounds": 1, "trainer": {"max_steps": 4}}, "distilled from the best of 8"),
    ],
)
def test_a_training_without_a_named_method_is_described_too(results, recipe, what):
    comparison = load_comparison({name: results[name] for name in ("base", "sharp")})
    assert what in by_model(models_table(comparison, {"sharp": recipe}))["sharp"]["what it is"]


def test_the_column_of_the_reward_and_what_passes_are_said(tmp_path):
    scores = [
        Score("p", n, 0.0, 0, 0, Outcome.SCORED, 0.0, columns={"judge": n / 4}) for n in range(4)
    ]
    write_run(tmp_path / "run", scores)
    comparison = load_comparison({"run": tmp_path / "run"}, Reading(column="judge", threshold=0.5))
    rows = {row[0].text: row[1].text for row in settings_table(comparison).rows}
    assert rows["the reward"] == "the column 'judge'"
    assert rows["a sample passes from a reward of"] == "0.5"
    page = write_report(comparison, tmp_path / "r.html").read_text()
    assert "the reward is the column judge" in page[: page.index("<main>")]


def test_settings_are_said_once_and_by_run_where_they_differ(changed):
    rows = {row[0].text: row[1].text for row in settings_table(load_comparison(changed)).rows}
    assert rows["problems"] == "30"
    assert rows["samples a problem"] == "128"
    assert rows["sampling.temperature"] == "1.0 (base); 0.7 (same)"
    assert not rows.keys() & {"model.device", "problems.count", "sampling.samples"}


def test_the_set_up_is_always_open(changed, tmp_path):
    page = write_report(changed, tmp_path / "r.html").read_text()
    start = page.index('id="set-up"')
    end = page.index("<details>")
    assert "1.0 (base); 0.7 (same)" in page[start:end]


@pytest.mark.parametrize(
    "trainer", [1e308, "x", [1], {"method": [1], "k": "x"}, {"max_steps": "x", "method": "grpo"}]
)
def test_a_training_record_of_another_kind_is_shown_as_far_as_it_goes(results, trainer):
    table = models_table(load_comparison(results), {"sharp": {"trainer": trainer}})
    assert table.header == ("model", "base", "sharp", "same")
    for recipe in ("x", 3, None):
        models_table(load_comparison(results), {"sharp": recipe})


def test_other_numerics_of_two_runs_are_said(results):
    runs = {name: copy.deepcopy(results[name]) for name in ("base", "same")}
    for name, gpu, stored in (("base", "1 x A100", None), ("same", "1 x H100", "float32")):
        manifest = runs[name]["manifest"]
        manifest["environment"] = {"gpu": gpu, "vllm": "0.25.1", "cpu": name}
        manifest["settings"]["model"] = {"dtype": "bfloat16", "stored_dtype": stored}
    lines = setting_differences(load_comparison(runs))
    assert lines == ["gpu: '1 x A100' for base, '1 x H100' for same"]
    runs["same"]["manifest"]["settings"]["model"]["dtype"] = "float32"
    assert "model.dtype: 'bfloat16' for base, 'float32' for same" in setting_differences(
        load_comparison(runs)
    )


@pytest.mark.parametrize("file", ["samples", "rewards"])
def test_the_files_that_were_scored_are_meant_to_differ(results, file):
    runs = {name: copy.deepcopy(results[name]) for name in ("base", "same")}
    for size, run in enumerate(runs.values()):
        run["manifest"]["settings"][file] = {"sha256": f"digest {size}", "bytes": size}
    comparison = load_comparison(runs)
    lines = setting_differences(comparison)
    assert [line for line in lines if file in line and "sampling" not in line] == []
    named = [row[0].text for row in settings_table(comparison).rows]
    assert not any(name.startswith(f"{file}.") for name in named)
