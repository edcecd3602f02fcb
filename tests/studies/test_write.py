"""What a finished study leaves in its folder, from toy folders of its stages."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from maxatk.evaluation.folder import RESULTS
from maxatk.folders import TRAIN_RECORD, read_json, write_json
from maxatk.records import Outcome, Score
from maxatk.studies.findings import Study
from maxatk.studies.findings_tables import study_tables
from maxatk.studies.problem_values import PROBLEM_VALUES
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import seeded_models
from maxatk.studies.write import PAGE, write_study
from report.conftest import make_results
from runs import write_run
from studies.conftest import CHANCES, SPIKED

GRIDS = [{"method": {"better": {"trainer.method": "bon_loo1"}, "same": {"trainer.method": "grpo"}}}]


@pytest.fixture
def finished(recipe):
    """Return a function: a study of so many seeds whose stages have left their folders."""

    def make(seeds, **changes):
        settings = {"grids": GRIDS, "seeds": seeds, "pairs": [["better", "same"]], **changes}
        study = load_study(recipe(**settings))
        for seeded_model in seeded_models(study):
            names = list(CHANCES)
            seed = 10 * seeded_model.seed + names.index(seeded_model.variant.name)
            ids = [f"{seeded_model.seed}-{i}" for i in range(6)]  # every seed has its own
            results = make_results(seed, *CHANCES[seeded_model.variant.name], ids=ids, samples=16)
            folder = seeded_model.evaluation
            folder.mkdir(parents=True)
            write_json(folder / RESULTS, results)
            if seeded_model.training is not None:
                folder = seeded_model.training
                folder.mkdir()
                write_json(folder / TRAIN_RECORD, {"log_history": SPIKED, "seconds": 2.0})
        return study

    return make


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seeds", [[1], [1, 2, 3]])
def test_a_finished_study_leaves_results_tables_figures_and_a_page(finished, tmp_path, seeds):
    recipe = finished(seeds)
    study = write_study(recipe, seeded_models(recipe))
    out = tmp_path / "out"
    tables = {f"tables/{n}.{s}" for n in study_tables(study) for s in ("md", "csv", "tex")}
    figures = {f"figures/{name}.{s}" for name in ("metric", "entropy") for s in ("svg", "pdf")}
    assert files_below(out) == {RESULTS, PROBLEM_VALUES, PAGE, *tables, *figures}
    written = read_json(out / RESULTS)
    assert written == json.loads(json.dumps(study.to_json()))
    assert study_tables(Study.from_json(written)) == study_tables(study)
    assert study.over == ("seeds" if len(seeds) >= 3 else "problems")
    assert recipe.title in (out / PAGE).read_text(encoding="utf-8")
    assert (out / "figures" / "entropy.svg").read_text().count("<svg") == 1


@pytest.mark.long
def test_the_curves_of_a_checkpoint_end_where_it_was_written(recipe, tmp_path):
    early = {"better,steps=2": (0.5, 0.5), "same,steps=2": (0.4, 0.4)}  # the best of each method
    pages = []
    for rows_after in (0, 2):
        trainer = {"max_steps": 4, "num_generations": 2, "k": 2}
        settings = {"grids": GRIDS, "seeds": [1, 2], "checkpoints": [2, 4]}
        settings |= {"front": {"rivals": ["same"], "ks": [8]}, "out": str(tmp_path / "study")}
        study = load_study(recipe(**settings, train={"trainer": trainer}))
        log = [{"step": step, "reward": 0.1 * step} for step in range(1, 3 + rows_after)]
        for seeded_model in seeded_models(study):
            chances = early.get(seeded_model.variant.name, (0.1, 0.1))
            results = make_results(seeded_model.seed, *chances, ids=["0", "1"], samples=16)
            seeded_model.evaluation.mkdir(parents=True, exist_ok=True)
            write_json(seeded_model.evaluation / RESULTS, results)
            if seeded_model.training is not None:
                seeded_model.training.mkdir(exist_ok=True)
                write_json(
                    seeded_model.training / TRAIN_RECORD, {"log_history": log, "seconds": 2.0}
                )
        write_study(study, seeded_models(study))
        pages.append((tmp_path / "study" / PAGE).read_text(encoding="utf-8"))
    assert "better,steps=2" in pages[0]
    assert "reward during training" in pages[0]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("base_at_8", ["known", "unknown"])
def test_trainings_that_all_fall_below_the_base_leave_a_front_without_curves(
    finished, tmp_path, base_at_8
):
    recipe = finished([1, 2, 3], front={"rivals": ["same"], "ks": [8]})
    for seeded_model in seeded_models(recipe):
        if seeded_model.variant.name == "base":
            ids = [f"{seeded_model.seed}-{i}" for i in range(6)]
            results = make_results(0, 0.9, 0.9, ids=ids, samples=16)
            if base_at_8 == "unknown":
                results["per_problem"]["max@k"]["8"] = [None] * len(ids)
            write_json(seeded_model.evaluation / RESULTS, results)
    study = write_study(recipe, seeded_models(recipe))
    assert study.front.curves == ()
    assert study.front.beyond == ()
    drawn = (tmp_path / "out" / "figures" / "front.svg").read_text(encoding="utf-8")
    assert drawn.count('id="axes_') == 1  # a panel for N = 8, with the base
    assert (tmp_path / "out" / PAGE).is_file()


def test_the_values_of_every_problem_give_the_means_and_tests_again(finished, tmp_path):
    recipe = finished([1, 2, 3])
    study = write_study(recipe, seeded_models(recipe))
    table = pd.read_csv(tmp_path / "out" / PROBLEM_VALUES)
    assert len(table) == len(CHANCES) * 3 * 6 * 2  # models, seeds, problems, metrics
    by_model = table[table.metric == "max@k"].set_index(["seed", "problem"]).groupby("model")
    values = {model: rows["16"] for model, rows in by_model}
    for name, column in values.items():
        mean = study.comparison.run(name).metric("max@k", 16).mean
        assert column.mean() == pytest.approx(mean, abs=1e-5)
    (test,) = [test for test in study.pairs if test.measure.k == 16]
    by_seed = (values[test.first] - values[test.second]).groupby("seed").mean()
    assert test.difference == pytest.approx(by_seed.mean(), abs=1e-5)
    assert test.p == pytest.approx(stats.ttest_1samp(by_seed, 0).pvalue, rel=1e-3)


def test_models_are_tested_at_the_ks_of_the_recipe(finished, tmp_path):
    recipe = finished([1, 2, 3], ks=[2, 8])
    study = write_study(recipe, seeded_models(recipe))
    assert {test.measure.k for test in (*study.leaders, *study.differences)} == {2, 8}
    assert [(test.first, test.measure.name) for test in study.pairs] == [
        ("better", "max@2"),
        ("better", "max@8"),
    ]
    table = pd.read_csv(tmp_path / "out" / PROBLEM_VALUES)
    values = table[table.metric == "max@k"].groupby(["model", "seed"])["8"].mean()
    difference = (values["better"] - values["same"]).mean()
    assert study.pairs[1].difference == pytest.approx(difference, abs=1e-5)


def test_a_k_that_no_evaluation_was_asked_for_is_computed_from_the_scores(recipe, tmp_path):
    front = {"rivals": ["same"], "ks": [5, 32]}
    study = load_study(recipe(grids=GRIDS, seeds=[1, 2, 3], ks=[1, 3, 10], front=front))
    rewards = {"base": [0.0, 0.25], "better": [0.5, 1.0], "same": [0.25, 0.5]}
    for seeded_model in seeded_models(study):
        low, high = rewards[seeded_model.variant.name]
        scores = [
            Score(f"{seeded_model.seed}-{p}", i, high if i <= p else low, 0, 1, Outcome.SCORED, 0.0)
            for p in range(2)
            for i in range(6)
        ]
        seeded_model.evaluation.mkdir(parents=True)
        write_run(seeded_model.evaluation, scores)
        if seeded_model.training is not None:
            seeded_model.training.mkdir()
            write_json(
                seeded_model.training / TRAIN_RECORD, {"log_history": SPIKED, "seconds": 2.0}
            )
    written = write_study(study, seeded_models(study))
    # Of 6 samples: 10 is more than there are, so that the largest takes its place.
    assert {test.measure.k for test in written.differences} == {1, 3, 6}
    assert {estimate.k for best in written.front.best for estimate in best.estimates} == {1, 5}
    # One or two of 6 samples are the high ones: a choice of 3 misses them with 10/20 or 4/20.
    expected = 0.5 + 0.5 * np.mean([1 - 10 / 20, 1 - 4 / 20])
    assert written.comparison.run("better").metric("max@k", 3).mean == pytest.approx(expected)
    assert {"3", "5"} <= set(pd.read_csv(tmp_path / "out" / PROBLEM_VALUES).columns)


def test_a_problem_with_too_few_samples_has_no_value(finished, tmp_path):
    recipe = finished([1])
    (base, *_) = seeded_models(recipe)
    results = read_json(base.evaluation / RESULTS)
    results["per_problem"]["max@k"]["16"][0] = None
    write_json(base.evaluation / RESULTS, results)
    write_study(recipe, seeded_models(recipe))
    table = pd.read_csv(tmp_path / "out" / PROBLEM_VALUES)
    missing = table[table["16"].isna()]
    assert missing[["model", "problem", "metric"]].values.tolist() == [["base", "1-0", "max@k"]]


def test_the_values_of_stored_scores_that_choose_are_there_too(finished, tmp_path):
    recipe = finished([1, 2])
    by_judge = "max@k by judge"
    for seeded_model in seeded_models(recipe):
        results = read_json(seeded_model.evaluation / RESULTS)
        results["metrics"][by_judge] = results["metrics"]["pass@k"]
        results["per_problem"][by_judge] = results["per_problem"]["pass@k"]
        write_json(seeded_model.evaluation / RESULTS, results)
    study = write_study(recipe, seeded_models(recipe))
    table = pd.read_csv(tmp_path / "out" / PROBLEM_VALUES)
    rows = table[table.metric == by_judge]
    assert len(rows) == len(CHANCES) * 2 * 6  # models, seeds, problems
    for name, of_model in rows.groupby("model"):
        mean = study.comparison.run(name).metric(by_judge, 16).mean
        assert of_model["16"].mean() == pytest.approx(mean, abs=1e-5)


def test_the_models_of_a_study_have_a_folder_a_seed_and_the_base_no_training(finished):
    all_models = seeded_models(finished([1, 2]))
    pairs = [(seeded_model.seed, seeded_model.variant.name) for seeded_model in all_models]
    assert pairs == [(seed, name) for seed in (1, 2) for name in ("base", "better", "same")]
    for seeded_model in all_models:
        assert (seeded_model.evaluation / RESULTS).is_file()
        assert (seeded_model.training is None) == (seeded_model.variant.name == "base")
        named = {} if seeded_model.training is None else {"method": seeded_model.variant.name}
        assert seeded_model.variant.levels == named


def test_a_study_written_twice_is_the_same(finished, tmp_path):
    recipe = finished([1, 2, 3])
    write_study(recipe, seeded_models(recipe))
    first = read_json(tmp_path / "out" / RESULTS)
    write_study(recipe, seeded_models(recipe))
    assert read_json(tmp_path / "out" / RESULTS) == first


def test_what_another_setting_has_left_is_gone(finished, tmp_path):
    recipe = finished([1, 2, 3], front={"rivals": ["same"], "ks": [8]})
    out = tmp_path / "out"
    write_study(recipe, seeded_models(recipe))
    before = files_below(out)
    for name in ("max_at_k_by_confidence.md", "own.md"):
        (out / "tables" / name).write_text("| a table |\n")
    plain = dataclasses.replace(recipe, front=None, pairs=[])
    write_study(plain, seeded_models(plain))
    gone = {f"tables/{n}.{s}" for n in ("front", "beyond", "pairs") for s in ("md", "csv", "tex")}
    gone |= {"figures/front.svg", "figures/front.pdf"}
    assert files_below(out) == (before - gone) | {"tables/own.md"}


def test_a_missing_evaluation_is_named_and_nothing_is_written(finished, tmp_path):
    recipe = finished([1, 2])
    missing = seeded_models(recipe)[-1].evaluation / RESULTS
    missing.unlink()
    with pytest.raises(FileNotFoundError, match=missing.parent.name):
        write_study(recipe, seeded_models(recipe))
    assert not (tmp_path / "out").exists()
