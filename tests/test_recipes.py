import dataclasses
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import maxatk
from maxatk.cli.main import main
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.jsonl import write_jsonl
from maxatk.problems import read_sets
from maxatk.records import Problem, TestCase
from maxatk.sampling import SamplingSettings
from maxatk.settings import from_mapping, read_recipe
from maxatk.studies.check import refusal_of, trainings_of
from maxatk.studies.recipe import StudyRecipe, load_study
from maxatk.studies.schedule import seeded_models
from oracles import PAPER
from tiny import save_tiny_model

FOLDER = Path(maxatk.__file__).parent / "recipes"
DEMOS = [FOLDER / "mini" / "demo.yaml", FOLDER / "mini" / "fast.yaml"]
STUDIES = [
    FOLDER / "mini" / f"{name}.yaml"
    for name in (
        "table1",
        "table2",
        "table4",
        "off_policy",
        "confirm",
        "objectives",
        "kl",
        "reuse",
        "selection",
        "signal",
    )
]
ON_POLICY = [
    FOLDER / "mini" / f"{name}.yaml"
    for name in (
        "demo_seeds",
        "learning_rate",
        "top_two",
        "distillation",
        "k_against_n",
        "front",
        "front_confirmed",
        "front_half_rate",
        "front_longer",
        "front_kl",
        "front_penalties",
        "front_tuned",
        "front_repeated",
        "front_repeated_longer",
        "front_falling_k",
        "front_weaker_penalty",
        "front_dr_grpo",
        "front_distillation",
        "front_distillation_again",
        "front_temperature",
        "front_temperature_longer",
        "front_rollouts",
        "front_tuned_temperature",
        "front_tuned_temperature_again",
        "front_temperature_penalties",
        "front_temperature_penalties_again",
        "front_temperature_penalties_fresh",
    )
]
PRETRAINED = [
    FOLDER / "smollm2" / f"{name}.yaml"
    for name in (
        "study",
        "hidden",
        "gpu",
        "demo",
        "seeds",
        "hidden_seeds",
        "long",
        "hidden_long",
        "hidden_long_2",
        "hidden_long_3",
        "hidden_long_5",
        "long_2",
        "rates",
        "rates_pool",
        "largest_rate",
        "many_answers",
    )
]
TEMPERATURES = [FOLDER / "evaluation" / "temperatures.yaml"]
UNSOLVED = [FOLDER / "mini" / "unsolved.yaml"]
AGENTS = [FOLDER / "smollm2" / "programs.yaml"]
EVALUATIONS = [
    FOLDER / "paper" / "eval.yaml",
    FOLDER / "smollm2" / "base.yaml",
    FOLDER / "mini" / "unsolved_base.yaml",
]
DATA = [FOLDER / "paper" / "data.yaml", FOLDER / "smollm2" / "data.yaml"]
DISTILLATIONS = [FOLDER / "mini" / "distill.yaml"]
LAUNCHES = sorted(FOLDER.glob("accelerate/*.yaml"))
ARRAYS = sorted(FOLDER.glob("arrays/*.yaml"))
ALL = sorted(FOLDER.rglob("*.yaml"))
OTHERS = (
    *DEMOS,
    *STUDIES,
    *ON_POLICY,
    *PRETRAINED,
    *TEMPERATURES,
    *UNSOLVED,
    *AGENTS,
    *EVALUATIONS,
    *DATA,
    *DISTILLATIONS,
    *LAUNCHES,
    *ARRAYS,
)
TRAININGS = [path for path in ALL if path not in OTHERS]
README = (FOLDER / "README.md").read_text()
COMMANDS = re.findall(r"maxatk train recipes/(\S+\.yaml)((?: [\w.]+=\S+)*)", README)
EVAL_COMMANDS = re.findall(
    r"^maxatk eval recipes/(\S+\.yaml)((?: +[\w.]+=\S+)*)$", README.replace("\\\n ", ""), re.M
)


def name_of(path):
    return str(path.relative_to(FOLDER))


def without_files(study, *, problems):
    """Return what a study asks the trainer, with so many problems, whose files are not there."""
    question = trainings_of(study, seeded_models(study))
    evaluations = {
        where: {**evaluation, "problems": None}
        for where, evaluation in question["evaluations"].items()
    }
    return {**question, "problems": problems, "evaluations": evaluations}


def test_the_recipes_at_the_root_are_those_of_the_package():
    root = Path(__file__).parents[1] / "recipes"
    assert sorted(root.rglob("*.yaml")) == [root / p.relative_to(FOLDER) for p in ALL]
    assert root.resolve() == FOLDER.resolve()


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_every_recipe_is_a_mapping_says_what_it_is_and_is_listed(path):
    text = path.read_text()
    assert text.startswith("# ")
    assert isinstance(yaml.safe_load(text), dict)
    assert f"`{name_of(path)}`" in README


@pytest.mark.parametrize("path", DEMOS, ids=name_of)
def test_demos_are_studies_of_seed_0_with_the_methods_that_the_page_compares(path):
    demo = load_study(path)
    assert demo.seeds == [0]
    assert refusal_of(trainings_of(demo, seeded_models(demo))) is None
    trained = {model.name for model in demo.variants}
    assert {"grpo", "bon_loo1"} <= trained
    assert demo.eval["sampling"]["samples"] >= 128  # the largest k of the table


@pytest.mark.parametrize("path", [*STUDIES, *ON_POLICY], ids=name_of)
def test_studies_are_valid_down_to_the_trainer_and_leave_seed_0_alone(path):
    study = load_study(path)
    assert 0 not in study.seeds  # settings were chosen on it
    assert study.eval["sampling"]["samples"] >= 128  # the largest k of the tables
    assert study.mini.test_problems >= (40 if path in ON_POLICY else 96)
    assert refusal_of(trainings_of(study, seeded_models(study))) is None


def test_the_study_of_ones_own_model_in_the_readme_is_valid_down_to_the_trainer():
    (text,) = re.findall(r"```yaml\n(title: .*?)```", README, re.DOTALL)
    study = from_mapping(StudyRecipe, yaml.safe_load(text), where="recipe")
    assert [model.name for model in study.variants] == ["base", "GRPO", "max@k"]
    assert refusal_of(without_files(study, problems=100)) is None


def test_the_studies_share_a_folder_and_the_largest_has_every_method():
    studies = [load_study(path) for path in STUDIES]
    assert {study.work for study in studies} == {"runs/study/work"}
    assert {load_study(path).work for path in ON_POLICY} == {"runs/study/on_policy"}
    assert len({study.out for study in studies}) == len(studies)
    table2 = load_study(FOLDER / "mini" / "table2.yaml")
    assert {model.name for model in table2.variants} >= {"base", *PAPER}


@pytest.fixture
def dry_run(tmp_path, monkeypatch):
    """Return a function that looks at a recipe, with a model and problems that are here."""
    from maxatk.train import TrainRecipe, preview

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    # Recipes of GPUs sample with vLLM, which is not in this environment.
    monkeypatch.setattr("maxatk.train.start_checks.refuse_missing_vllm", lambda config: None)
    model = str(save_tiny_model(tmp_path / "model", max_position_embeddings=4096))
    tests = (TestCase(input="1\n", output="2\n"),)
    problems = (Problem(str(i), "add one", tests, answer=str(i)).to_json() for i in range(2490))
    write_jsonl(tmp_path / "problems.jsonl", problems)

    def look(path, overrides=()):
        local = (f"model={model}", f"problems={tmp_path / 'problems.jsonl'}")
        settings = read_recipe(path, (*overrides, *local))
        return preview(from_mapping(TrainRecipe, settings, where="recipe"))

    return look


@pytest.mark.parametrize("path", TRAININGS, ids=name_of)
def test_training_recipes_pass_the_dry_run(dry_run, path):
    from maxatk.train import check_settings

    preview = dry_run(path)
    assert preview.unchecked == ""
    config = check_settings(preview.recipe)
    assert config.per_device_train_batch_size % config.num_generations == 0  # whole
    assert preview.plan["optimizer_steps"] >= 100


@pytest.mark.long
def test_the_commands_of_the_readme_pass_the_dry_run_and_use_every_method(dry_run):
    from maxatk.train import check_settings

    methods = set()
    folders = []
    for name, overrides in COMMANDS:
        preview = dry_run(FOLDER / name, overrides.split())
        if name == "paper/train.yaml":
            methods.add(check_settings(preview.recipe).method)
        folders.append(preview.recipe.out)
    assert methods >= set(PAPER)
    papers = [out for out in folders if out.startswith("runs/paper")]
    assert len(set(papers)) == len(papers), "two commands write to one folder"


@pytest.mark.parametrize("path", PRETRAINED, ids=name_of)
def test_studies_of_the_pretrained_model_are_valid_down_to_the_trainer(path):
    study = load_study(path)
    assert refusal_of(without_files(study, problems=40)) is None
    assert {"grpo", "bon_loo1"} <= {model.method for model in study.variants}


@pytest.mark.parametrize("path", AGENTS, ids=name_of)
def test_studies_of_agents_are_valid_down_to_the_trainer_and_differ_in_turns(path):
    study = load_study(path)
    assert refusal_of(without_files(study, problems=40)) is None
    assert len(study.seeds) == 2
    environments = [model.train.get("environment") for model in study.variants[1:]]
    assert sum(environment is not None for environment in environments) == 1


@pytest.mark.long
def test_the_study_of_the_pretrained_model_passes_the_dry_run(maxatk, tmp_path):
    path = FOLDER / "smollm2" / "study.yaml"
    study = load_study(path)
    save_tiny_model(tmp_path / study.model)
    tests = (TestCase(check="def check(candidate):\n    assert candidate(1) == 2\n"),)
    problems = [Problem(str(i), "add one", tests, entry_point="f") for i in range(12)]
    for file in (study.train["problems"], study.eval["problems"]):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(tmp_path / file, (problem.to_json() for problem in problems))
    done = maxatk("study", path, "--dry-run")
    assert done.returncode == 0, done.stderr
    models = len(study.variants)
    assert f"models  {models} x {len(study.seeds)} seeds" in done.stdout
    assert f"stages  {(2 * models - 1) * len(study.seeds)}, 0 of them finished" in done.stdout


def test_the_script_makes_the_files_that_the_studies_name(tmp_path):
    made = set()
    forms = [(form, {}) for form in ("visible", "hidden")]
    forms += [("visible", {"NAME": "small", "POOL": "120"})]
    forms += [("hidden", {"NAME": "small-hidden", "POOL": "120"})]
    forms += [("hidden", {"NAME": "gpu", "SAMPLES": "0"})]
    for form, more in forms:
        lines = prepared(tmp_path, form, ROWS="my rows.jsonl", WHEEL="my wheel.whl", **more)
        assert lines[0].endswith("smollm2/model.py runs/smollm2/model my wheel.whl")
        commands = [line.split()[0] for line in lines[1:]]
        if more.get("SAMPLES") == "0":  # no model chooses among them
            assert commands == ["problems"] * 3
        else:
            assert commands == [*["problems", "eval", "problems"] * 2, "problems"]
        limit = f" sets.{form}-train.limit=120" if "POOL" in more else ""
        assert f"sets.{form}-train.file=my rows.jsonl{limit} --only {form}-train --out" in lines[1]
        made |= {line.rpartition(" ")[2] for line in lines if line.startswith("problems ")}
        made.add("runs/smollm2/model")
    for path in PRETRAINED:
        study = load_study(path)
        named = {study.model, study.train["problems"], study.eval["problems"]}
        if study.chooses_on_problems:
            named.add(study.front.choose["problems"])
        assert named <= made


@pytest.mark.parametrize("path", TEMPERATURES, ids=name_of)
def test_a_study_of_temperatures_is_of_the_model_and_the_problems_that_are_named(
    path, tmp_path, capsys
):
    model = save_tiny_model(tmp_path / "model")
    tests = (TestCase(input="1\n", output="2\n"),)
    problems = tmp_path / "mine.jsonl"
    write_jsonl(problems, (Problem(str(i), "add one", tests).to_json() for i in range(3)))
    overrides = [f"model={model}", f"eval.problems={problems}", f"out={tmp_path / 'out'}"]
    assert main(["study", str(path), *overrides, "--dry-run"]) == 0
    assert "eval    6 left" in capsys.readouterr().out
    sampled = [model.sampling for model in load_study(path).variants[1:]]
    assert [sampling["temperature"] for sampling in sampled] == [0.2, 0.4, 0.6, 0.8, 1.2]


@pytest.mark.parametrize("path", UNSOLVED, ids=name_of)
def test_seeds_with_problems_of_their_own_have_what_the_script_makes(path, tmp_path):
    study = load_study(path)
    all_models = seeded_models(study)
    assert refusal_of(without_files(study, problems=960)) is None
    seeds = [str(seed) for seed in study.seeds]
    done = subprocess.run(
        ["sh", str(path.with_suffix(".sh")), *seeds],
        env={**os.environ, "MAXATK": "echo"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    made = set()
    for line in done.stdout.splitlines():
        if line.startswith("mini "):
            folder = line.split()[1]
            made |= {f"{folder}/base", f"{folder}/train.jsonl", f"{folder}/test.jsonl"}
        if line.startswith("problems select "):
            made.add(re.search(r"--out (\S+)", line)[1])
    read = {study.model_of(seed) for seed in study.seeds}
    for seeded_model in all_models:
        read |= {recipe["problems"] for recipe in seeded_model.recipes.values()}
    assert read <= made


def prepared(folder, form, *, ROWS, **environment):
    done = subprocess.run(
        ["sh", str(FOLDER / "smollm2" / "prepare.sh"), form, ROWS],
        env={**os.environ, "MAXATK": "echo", "PYTHON": "echo", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_forms_of_the_problems_differ_in_the_tests_that_are_shown_alone():
    sets = read_sets(read_recipe(FOLDER / "smollm2" / "data.yaml"))
    for part in ("train", "test", "validation"):
        shown = sets[f"visible-{part}"]
        hidden = sets[f"hidden-{part}"]
        options = {**shown.options, "visible_tests": 1}
        assert dataclasses.replace(shown, options=options) == hidden
        assert shown.split == part
    studies = [load_study(FOLDER / "smollm2" / f"{name}.yaml") for name in ("study", "hidden")]
    assert len({study.out for study in studies}) == 2
    assert len({study.work for study in studies}) == 1
    assert [study.train["problems"] for study in studies] == [
        f"runs/smollm2/{form}/train.jsonl" for form in ("visible", "hidden")
    ]


@pytest.mark.parametrize("path", DISTILLATIONS, ids=name_of)
def test_distillation_recipes_are_valid(path):
    from maxatk.train import DistillRecipe
    from maxatk.train.distill_recipe import config_of

    recipe = from_mapping(DistillRecipe, read_recipe(path), where="recipe")
    config_of(recipe, Path(recipe.out))


@pytest.mark.parametrize("path", EVALUATIONS, ids=name_of)
def test_evaluation_recipes_are_valid(path):
    recipe = from_mapping(EvalRecipe, read_recipe(path), where="recipe")
    assert recipe.verifier.repair_truncated == (path.parent.name != "paper")


def test_the_evaluation_of_the_paper_names_every_setting_of_sampling():
    settings = read_recipe(EVALUATIONS[0])
    recipe = from_mapping(EvalRecipe, settings, where="recipe")
    assert settings["sampling"].keys() == dataclasses.asdict(recipe.sampling).keys()
    assert settings["verifier"]["time_limit"] == recipe.verifier.time_limit == 4.0


def test_the_evaluation_of_the_paper_samples_as_the_paper_says():
    recipe = from_mapping(EvalRecipe, read_recipe(FOLDER / "paper" / "eval.yaml"), where="recipe")
    sampling = SamplingSettings(samples=256, temperature=1.0, top_p=1.0, max_new_tokens=256)
    assert recipe.sampling == sampling


def test_the_evaluations_of_the_documents_are_valid_and_write_to_folders_of_their_own():
    recipes = [
        from_mapping(EvalRecipe, read_recipe(FOLDER / name, overrides.split()), where="recipe")
        for name, overrides in EVAL_COMMANDS
    ]
    assert len(recipes) == 4
    assert len({recipe.out for recipe in recipes}) == 4
    made = set(read_sets(read_recipe(DATA[0])))
    assert {Path(recipe.problems).stem.removesuffix("-test") for recipe in recipes} <= made


@pytest.mark.parametrize("path", LAUNCHES, ids=name_of)
def test_accelerate_reads_its_files(path):
    from accelerate.commands.config.config_args import load_config_from_file

    assert load_config_from_file(str(path)).num_processes >= 2
