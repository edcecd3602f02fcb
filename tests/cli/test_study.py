"""Studies: what a recipe plans, and one end to end at its smallest, killed and started again."""

import dataclasses
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import get_args

import pytest
import yaml

from cli.test_demo import RECIPE as DEMO
from evaluation.conftest import save_tiny_model
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.folders import write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.report.formats import format_table
from maxatk.studies.findings import Study
from maxatk.studies.grids import paired_names
from maxatk.studies.preflight import TrainingSize, answer, check_study, trainings_of
from maxatk.studies.schedule import estimated_seconds, places, planned
from maxatk.studies.study_recipe import FigureName, load_study
from maxatk.studies.study_rows import study_rows
from maxatk.studies.study_tables import study_tables
from processes import family, patience, still_alive

RECIPE = {
    "title": "A small study",
    "seeds": [1, 2],
    **{key: DEMO[key] for key in ("mini", "train", "eval")},
    "figures": ["metric", "entropy", "drift", "heat_map"],
    "grids": [
        {"method": {"grpo": {"trainer.method": "grpo"}}},
        {
            "method": {"loo": {"trainer.method": "bon_loo1"}},
            "updates": {1: {"trainer.num_iterations": 1}, 2: {"trainer.num_iterations": 2}},
        },
    ],
}


@pytest.fixture
def recipe(tmp_path):
    def write(name="study.yaml", **changes):
        path = tmp_path / name
        folders = {"out": str(tmp_path / "out"), "work": str(tmp_path / "work")}
        path.write_text(yaml.safe_dump({**RECIPE, **folders, **changes}, sort_keys=False))
        return path

    return write


def test_models_are_all_combinations_of_levels_and_the_base(recipe):
    found = load_study(recipe()).variants
    assert [model.name for model in found] == ["base", "grpo", "loo,updates=1", "loo,updates=2"]
    assert found[2].levels == {"method": "loo", "updates": "1"}
    assert found[2].train["trainer"]["num_iterations"] == 1
    assert found[2].train["trainer"]["method"] == "bon_loo1"
    assert found[2].train["trainer"]["k"] == RECIPE["train"]["trainer"]["k"]


def test_pairs_are_models_that_differ_by_the_two_levels_alone(recipe):
    updates = {1: {"trainer.num_iterations": 1}, 2: {"trainer.num_iterations": 2}}
    methods = {name: {"trainer.method": name} for name in ("bon_loo1", "bon_mean")}
    grids = [
        {"method": methods, "updates": updates},
        {"method": {"grpo": {"trainer.method": "grpo"}}, "updates": {1: updates[1]}},
    ]
    pairs = [["bon_mean", "bon_loo1"], ["grpo", "bon_mean"], ["2", "1"]]
    study = load_study(recipe(grids=grids, pairs=pairs))
    assert paired_names(study.variants, study.pairs) == [
        ("bon_mean,updates=1", "bon_loo1,updates=1"),
        ("bon_mean,updates=2", "bon_loo1,updates=2"),
        ("grpo,updates=1", "bon_mean,updates=1"),
        ("bon_loo1,updates=2", "bon_loo1,updates=1"),
        ("bon_mean,updates=2", "bon_mean,updates=1"),
    ]


def test_every_seed_has_its_own_corpus_prompts_training_and_samples(recipe):
    study = load_study(recipe())
    recipes = {stage.name: recipe for stage, recipe in planned(study, cores=2, jobs=2).items()}
    assert len(recipes) == 2 * (1 + 3 + 4)
    for place in places(study):
        assert recipes[place.warm_start]["seed"] == place.seed
        assert recipes[place.evaluation]["sampling"]["seed"] == place.seed
        assert recipes[place.evaluation]["problems"].endswith(f"{place.warm_start}/test.jsonl")
        if place.training is not None:
            assert recipes[place.training]["trainer"]["seed"] == place.seed
            assert recipes[place.training]["model"].endswith(f"{place.warm_start}/base")
            assert recipes[place.evaluation]["model"].endswith(place.training)


def names_of(study):
    return {stage.name for stage in planned(study, cores=2, jobs=2)}


def test_studies_share_what_is_the_same_and_nothing_else(recipe):
    names = names_of(load_study(recipe()))
    grids = [
        {
            "k": {
                "k=2": {"trainer.method": "grpo"},
                "k=3": {"trainer.method": "grpo", "trainer.k": 3},
            }
        }
    ]
    other = names_of(load_study(recipe("b.yaml", grids=grids, seeds=[1])))
    assert len(other - names) == 2  # the training with k=3 and its evaluation
    warmer = {**RECIPE["mini"], "tests": 3}
    assert not names & names_of(load_study(recipe("c.yaml", mini=warmer)))


def test_a_method_with_parameters_of_its_own_gives_a_plain_name_of_a_folder(recipe):
    own = {"credit": {"cvar": 0.25, "of": 4}, "baseline": "replace_one"}
    grids = [{"method": {"quarter": {"trainer.method": own}}}]
    trainings = [place.training for place in places(load_study(recipe(grids=grids)))]
    assert all(re.fullmatch(r"train-own-[12]-[0-9a-f]{8}", name) for name in trainings if name)


def test_a_recipe_may_extend_another(recipe, tmp_path):
    recipe("first.yaml")
    second = tmp_path / "second.yaml"
    second.write_text("extends: first.yaml\ntitle: Other\nseeds: [7]\n")
    study = load_study(second, ["mini.tests=3"])
    assert (study.title, study.seeds, study.mini.tests) == ("Other", [7], 3)
    assert study.grids == load_study(tmp_path / "first.yaml").grids


def test_a_recipe_that_extends_itself_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    with pytest.raises(InvalidValueError, match="extends itself"):
        load_study(tmp_path / "a.yaml")


def test_the_estimate_learns_from_finished_stages(recipe, tmp_path):
    study = load_study(recipe())
    sizes = {model.name: TrainingSize(2, 4) for model in study.variants}
    before = estimated_seconds(study, sizes)
    training = next(p.training for p in places(study) if p.variant.name == "loo,updates=2")
    (tmp_path / "work" / "stages").mkdir(parents=True)
    taken = 2 * before[training]
    write_json(tmp_path / "work" / "stages" / f"{training}.json", {"seconds": taken})
    after = estimated_seconds(study, sizes)
    assert training not in after
    for name, seconds in after.items():
        factor = 2 if name.startswith("train-") else 1
        assert seconds == pytest.approx(factor * before[name])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"grids": [{"method": {"grpo": {}}}, {"method": {"grpo": {}}}]}, "'grpo' is there twice"),
        ({"grids": [{"method": ["grpo"]}]}, r"grids\[0\].method"),
        ({"grids": [{"method": {"grpo": "grpo"}}]}, r"grids\[0\].method.grpo"),
        ({"baseline": "gpro"}, "baseline"),
        ({"figures": ["metrics"]}, "did you mean 'metric'"),
        ({"costs": {"optimizer_step": 0}}, "costs.optimizer_step"),
        ({"model": "some/model"}, "must have either 'model' or 'mini'"),
        ({"mini": None}, "must have either 'model' or 'mini'"),
        ({"mini": None, "model": "m"}, "eval: the key 'problems' is required beside 'model'"),
        ({"train": {"problems": "p.jsonl"}}, "train.problems: is set by the study itself"),
        ({"eval": {"model": "m"}}, "eval.model: is set by the study itself"),
        ({"train": {"trainer": {"seed": 3}}}, "train.trainer.seed: is that of 'seeds'"),
        ({"train": {"trainer": 3}}, "train.trainer: must be a mapping, got 3"),
        ({"eval": {"sampling": {"sampels": 1}}}, "recipe.eval.sampling: unknown key 'sampels'"),
        ({"eval": {"batch_size": 0}}, "batch_size: must be 1 or more, got 0"),
        ({"pairs": [["loo"]]}, "pairs: each must be two levels"),
        ({"pairs": [["loo", "exact"]]}, "pairs: no two models .* levels are 1, 2, grpo, loo"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(recipe, changes, said):
    with pytest.raises(InvalidValueError, match=said):
        load_study(recipe(**changes))


def test_the_trainer_refuses_before_any_work(recipe, tmp_path, capsys):
    grids = [{"k": {"k=9": {"trainer.method": "grpo", "trainer.k": 9}}}]
    assert main(["study", str(recipe(grids=grids))]) == 2
    said = capsys.readouterr().err
    assert "k=9: k: must be a whole number from 1 to num_generations (4)" in said
    assert not (tmp_path / "work").exists()


def test_a_dry_run_says_what_is_left_writes_nothing_and_imports_neither_torch_nor_matplotlib(
    recipe, tmp_path
):
    probe = (
        "import sys; from maxatk.cli.main import main; status = main(sys.argv[1:]); "
        "print(status, {'torch', 'matplotlib'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", probe, "study", str(recipe()), "--dry-run", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120))
    assert "4 x 2 seeds" in done.stdout
    assert "16, 0 of them finished" in done.stdout
    assert "min with 2 at once" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 set()", done.stderr
    assert not (tmp_path / "work").exists()


def test_a_plan_as_json_has_a_row_a_stage(recipe, capsys):
    assert main(["study", str(recipe()), "--dry-run", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["plan"]
    kinds = {kind: sum(row["kind"] == kind for row in rows) for kind in ("mini", "train", "eval")}
    assert kinds == {"mini": 2, "train": 6, "eval": 8}
    assert all(row["seconds"] > 0 for row in rows)


def test_the_trainer_says_how_much_every_training_does(recipe):
    batches = 3 * RECIPE["mini"]["train_problems"] // 2  # 3 epochs, 2 prompts a rollout batch
    trainer = {**RECIPE["train"]["trainer"], "max_steps": -1}
    study = load_study(recipe(train={**RECIPE["train"], "trainer": trainer}))
    assert check_study(study) == {
        "grpo": TrainingSize(batches, 2 * batches),
        "loo,updates=1": TrainingSize(batches, batches),
        "loo,updates=2": TrainingSize(batches, 2 * batches),
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verifier": None}, "grpo: train.verifier: must be VerifierSettings, got nothing"),
        ({"rewrad": "binary"}, "grpo: train: unknown key 'rewrad'; did you mean 'reward'"),
        ({"peft": {"rr": 4}}, "grpo: peft: unknown key 'rr'"),
        ({"trainer": {"method": "grop"}}, "did you mean 'grpo'"),
        ({"trainer": {"num_generations": 200, "k": 1}}, "grpo: "),
    ],
)
def test_what_the_trainer_refuses_names_the_model(recipe, change, said):
    grids = [{"method": {"grpo": {}}}]
    study = load_study(recipe(train={**RECIPE["train"], **change}, grids=grids))
    assert said in answer(trainings_of(study))["error"]


def test_no_process_outlives_a_study_that_is_killed_while_it_asks_the_trainer(recipe, started):
    study = started(sys.executable, "-m", "maxatk", "study", str(recipe()), "--dry-run")
    end = time.monotonic() + patience(60)
    while len(members := family(study.pid)) < 2:
        assert time.monotonic() < end, "the trainer was never asked"
        time.sleep(0.01)
    study.send_signal(signal.SIGKILL)
    assert still_alive(members) == []


def test_the_figures_of_a_recipe_are_those_that_can_be_drawn():
    from maxatk.studies.study_figures import FIGURES

    assert set(get_args(FigureName)) == set(FIGURES)


def test_two_studies_at_once_in_one_folder_are_refused(recipe, tmp_path, capsys):
    (tmp_path / "work").mkdir()
    with (tmp_path / "work" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["study", str(recipe(grids=[]))]) == 2
    assert "another study is at work" in capsys.readouterr().err


def start(recipe, *flags):
    return subprocess.Popen(
        [sys.executable, "-m", "maxatk", "study", str(recipe), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )


def killed_after_a_stage(study, work):
    """Kill a study as soon as a stage has finished; return when each finished one did."""
    end = time.monotonic() + patience(120)
    while not list((work / "stages").glob("*.json")):
        assert time.monotonic() < end, "no stage has finished"
        time.sleep(0.05)
    study.send_signal(signal.SIGKILL)
    study.communicate()
    return {path: path.stat().st_mtime_ns for path in (work / "stages").glob("*.json")}


@pytest.fixture
def of_a_llama(tmp_path):
    """Return the keys of a study that trains a model folder of another architecture than ours."""
    model = save_tiny_model(tmp_path / "llama", architecture="Llama")
    tests = tuple(TestCase(input="", output=f"{n}\n") for n in (1, 1, 2))
    for name, count in (("train", 8), ("test", 3)):
        problems = (Problem(f"{name}-{i}", "print(1)\n" * (i + 1), tests) for i in range(count))
        write_jsonl(tmp_path / f"{name}.jsonl", (problem.to_json() for problem in problems))
    trainer = {**RECIPE["train"]["trainer"], "max_completion_length": 4}
    adapter = {"peft": {"r": 2, "target_modules": ["q_proj"]}}
    return {
        "mini": None,
        "model": str(model),
        "train": {
            **RECIPE["train"],
            "problems": str(tmp_path / "train.jsonl"),
            "trainer": trainer,
        },
        "eval": {
            "problems": str(tmp_path / "test.jsonl"),
            "limit": 2,
            "batch_size": 8,
            "sampling": {"samples": 8, "max_new_tokens": 4},
            "verifier": {"workers": 1},
        },
        "grids": [
            {
                "method": {
                    "grpo": {"trainer.method": "grpo"},
                    "low rank": {"trainer.method": "bon_loo1", **adapter},
                }
            }
        ],
    }


def test_the_stages_of_an_outside_model_begin_with_it_and_depend_on_its_files(
    recipe, of_a_llama, tmp_path, capsys
):
    study = load_study(recipe(**of_a_llama))
    stages = planned(study, cores=2, jobs=2)
    assert sum(not stage.needs for stage in stages) == 2 * (2 + 1)  # trainings, and the base
    for stage, settings in stages.items():
        if stage.name.startswith("train-"):
            assert settings["model"] == of_a_llama["model"]
    before = names_of(study)
    assert names_of(load_study(recipe(**of_a_llama))) == before
    (tmp_path / "test.jsonl").open("a").write("\n")
    changed = names_of(study)
    assert {name for name in before if name.startswith("train-")} == before & changed
    save_tiny_model(tmp_path / "llama", architecture="Llama", seed=1)
    assert not names_of(study) & before
    assert main(["study", str(recipe(**{**of_a_llama, "grids": []})), "--dry-run"]) == 0
    assert "not known: the recipe gives no costs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        (None, {"model": "./nowhere"}, "model: there is no folder './nowhere'"),
        ("eval", {"problems": "no.jsonl"}, "no.jsonl: no such file"),
        ("eval", {"problems": "mbbp"}, "did you mean 'mbpp'"),
    ],
)
def test_an_outside_model_that_is_not_there_is_refused(
    recipe, of_a_llama, capsys, section, change, said
):
    changes = change if section is None else {section: {**of_a_llama[section], **change}}
    assert main(["study", str(recipe(**{**of_a_llama, **changes})), "--dry-run"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.timeout(patience(280))
def test_a_killed_study_of_two_seeds_goes_on_and_writes_what_it_found(recipe, of_a_llama, tmp_path):
    out, work = tmp_path / "out", tmp_path / "work"
    del of_a_llama["grids"][0]["method"]["grpo"]
    path = recipe(**of_a_llama)
    finished = killed_after_a_stage(start(path, "--jobs", "3"), work)
    process = start(path, "--jobs", "3")
    said, _ = process.communicate(timeout=patience(240))
    assert process.returncode == 0, said
    for marker, written in finished.items():
        assert marker.stat().st_mtime_ns == written, "a finished stage ran again"
    found = json.loads((out / "results.json").read_text())
    assert list(found["models"]) == ["base", "low rank"]
    for model in found["models"].values():
        assert model["counts"]["samples"] == 2 * 2 * 8  # seeds, problems, samples
        for seed in ("1", "2"):
            assert model["by_seed"][seed]["max@k"].keys() == {"1", "2", "4", "8"}
    assert found["models"]["low rank"]["training"]["seconds"] > 0
    check_stages(load_study(path), work)
    check_tables(found, out)


def check_stages(study, work):
    """Every stage has the seed of its place and the model of the study."""
    for place in places(study):
        settings = json.loads((work / place.evaluation / "manifest.json").read_text())["settings"]
        assert settings["sampling"]["seed"] == place.seed
        if place.training is None:
            assert settings["model"]["model"] == study.model
            continue
        config = json.loads((work / place.training / "config.json").read_text())
        assert config["model_type"] == "llama"
        assert (work / place.training / "adapter" / "adapter_config.json").is_file()
    completions = {
        (work / place.evaluation / "samples.jsonl").read_text()
        for place in places(study)
        if place.training is None
    }
    assert len(completions) == 2, "the base is sampled once for every seed"


def check_tables(found, out):
    """Tables, figures and page of a study show what is in its results."""
    study = Study.from_json(found)
    assert json.loads(json.dumps(study.to_json())) == found
    for name, table in study_tables(study).items():
        for table_format, suffix in (("md", "md"), ("csv", "csv"), ("latex", "tex")):
            written = (out / "tables" / f"{name}.{suffix}").read_text()
            assert written == format_table(table, table_format), name
    assert {p.name for p in (out / "figures").iterdir()} >= {"metric.svg", "heat_map.pdf"}
    page = (out / "report.html").read_text()
    assert "A small study" in page
    assert "low rank" in page
    best = found["models"]["low rank"]["metrics"]["max@k"]["8"]["mean"]
    rows = study_rows(study)
    shown = {(row["model"], row["metric"], row["k"]): row["mean"] for row in rows["scores"]}
    assert shown["low rank", "max@k", 8] == best
    compared = {(row["first"], row["second"], row["seeds"]) for row in rows["differences"]}
    assert compared == {("low rank", "base", 2)}


def test_mappings_of_an_extended_recipe_are_laid_over_each_other(recipe, tmp_path):
    recipe("first.yaml")
    second = tmp_path / "second.yaml"
    second.write_text(
        "extends: first.yaml\nmini: {tests: 3}\ntrain: {trainer: {num_iterations: 1}}\n"
    )
    first, found = load_study(tmp_path / "first.yaml"), load_study(second)
    assert found.mini == dataclasses.replace(first.mini, tests=3)
    assert found.train == {
        **first.train,
        "trainer": {**first.train["trainer"], "num_iterations": 1},
    }


def test_the_stages_of_a_study_are_told_of_its_cluster(recipe):
    stages = planned(load_study(recipe()), cores=2, jobs=1, flags=["--cluster.address", "auto"])
    told = {s.arguments[0] for s in stages if s.arguments[-2:] == ("--cluster.address", "auto")}
    assert told == {"train", "eval"}


def test_a_cluster_that_nobody_listens_at_is_refused_before_any_stage(recipe, tmp_path, capsys):
    assert main(["study", str(recipe()), "--cluster.address", "127.0.0.1:1"]) == 2
    assert "cluster.address: nobody listens on 127.0.0.1:1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
