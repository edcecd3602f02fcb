"""From a recipe to stages: what each makes, what studies share, and what the trainer refuses."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from maxatk.cli.main import main
from maxatk.errors import InvalidValueError, MissingFileError, StageError
from maxatk.studies.check import check_files, check_study, refusal_of, trainings_of
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import planned, seeded_models, write_recipes, write_stage_names
from maxatk.train import loading_checks
from studies.conftest import RECIPE, UNTRAINED
from tiny import save_tiny_model


def names_of(study):
    return {stage.name for stage in planned(study, seeded_models(study), cores=2, jobs=2)}


def test_every_seed_has_its_own_corpus_prompts_training_and_samples(recipe):
    study = load_study(recipe())
    recipes = {
        stage.name: recipe
        for stage, recipe in planned(study, seeded_models(study), cores=2, jobs=2).items()
    }
    assert len(recipes) == 2 * (1 + 3 + 4)
    for seeded_model in seeded_models(study):
        warm = seeded_model.chain["mini"]
        evaluation = recipes[seeded_model.chain["eval"]]
        assert recipes[warm]["seed"] == seeded_model.seed
        assert evaluation["sampling"]["seed"] == seeded_model.seed
        assert evaluation["problems"].endswith(f"{warm}/test.jsonl")
        if seeded_model.training is not None:
            assert recipes[seeded_model.training.name]["trainer"]["seed"] == seeded_model.seed
            assert recipes[seeded_model.training.name]["model"].endswith(f"{warm}/base")
            assert evaluation["model"].endswith(seeded_model.training.name)


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


def test_stages_do_not_depend_on_how_many_programs_run_at_once(recipe):
    sections = {name: dict(RECIPE[name]) for name in ("train", "eval")}
    names = names_of(load_study(recipe()))
    for section in sections.values():
        section["verifier"] = {**section.get("verifier", {}), "workers": 7}
    assert names_of(load_study(recipe("b.yaml", **sections))) == names
    for section in sections.values():
        section["verifier"] = {**section["verifier"], "time_limit": 9.5}
    assert len(names_of(load_study(recipe("c.yaml", **sections))) & names) == 2  # the warm starts


def test_a_method_with_parameters_of_its_own_gives_a_plain_name_of_a_folder(recipe):
    method = {"credit": {"cvar": 0.25, "of": 4}, "baseline": "replace_one"}
    grids = [{"method": {"quarter": {"trainer.method": method}}}]
    all_models = seeded_models(load_study(recipe(grids=grids)))
    trainings = [seeded_model.training.name for seeded_model in all_models if seeded_model.training]
    assert all(re.fullmatch(r"train-own-[12]-[0-9a-f]{8}", name) for name in trainings)


def test_models_that_differ_in_their_sampling_alone_share_a_training(recipe):
    grids = [
        {
            "method": {"grpo": {}, "untrained": {"trainer.max_steps": 0}},
            "temperature": {
                "cold": {"eval.sampling.temperature": 0.5},
                "hot": {"eval.sampling.temperature": 1.5, "eval.sampling.top_p": 0.9},
            },
        }
    ]
    study = load_study(recipe(grids=grids, seeds=[1]))
    stages = planned(study, seeded_models(study), cores=2, jobs=2)
    recipes = {stage.name: recipe for stage, recipe in stages.items()}
    by_name = {seeded_model.variant.name: seeded_model for seeded_model in seeded_models(study)}
    cold = by_name["grpo,temperature=cold"]
    hot = by_name["grpo,temperature=hot"]
    assert cold.chain["train"] == hot.chain["train"]
    assert sum(name.startswith("train-") for name in recipes) == 1
    sampling = {
        name: recipes[seeded_model.chain["eval"]]["sampling"]
        for name, seeded_model in by_name.items()
    }
    assert sampling["grpo,temperature=cold"]["temperature"] == 0.5
    assert sampling["untrained,temperature=hot"]["temperature"] == 1.5
    assert sampling["untrained,temperature=hot"]["top_p"] == 0.9
    assert sampling["base"]["temperature"] == study.eval_recipe(seed=1).sampling.temperature
    assert {settings["seed"] for settings in sampling.values()} == {1}
    assert by_name["untrained,temperature=hot"].chain.keys() == {"mini", "eval"}
    write_stage_names(study, seeded_models(study))
    names = json.loads((study.work_folder / "stages.json").read_text())
    assert names[cold.chain["train"]] == "train grpo, seed 1"
    assert names[hot.chain["eval"]] == "eval grpo,temperature=hot, seed 1"


def test_a_model_is_distilled_after_its_training_or_in_place_of_one(recipe):
    distill = {"eval": {"sampling": {"samples": 8}}, "trainer": {"bf16": False, "use_cpu": True}}
    grids = [
        {
            "way": {
                "trained": {},
                "distilled": {"trainer.max_steps": 0, "distill.k": 4},
                "both": {"distill.k": 4},
            }
        }
    ]
    study = load_study(recipe(train={**RECIPE["train"], "distill": distill}, grids=grids))
    stages = planned(study, seeded_models(study), cores=2, jobs=2)
    needs = {stage.name: stage.needs for stage in stages}
    recipes = {stage.name: recipe for stage, recipe in stages.items()}
    chains = {p.variant.name: p.chain for p in seeded_models(study) if p.seed == study.seeds[1]}
    assert list(chains["trained"]) == ["mini", "train", "eval"]
    assert list(chains["distilled"]) == ["mini", "distill", "eval"]
    assert list(chains["both"]) == ["mini", "train", "distill", "eval"]
    assert chains["both"]["train"] == chains["trained"]["train"]
    assert chains["both"]["distill"] != chains["distilled"]["distill"]
    for chain in (chains["distilled"], chains["both"]):
        before, distilled, evaluation = list(chain.values())[-3:]
        assert needs[distilled] == (before,)
        assert needs[evaluation] == (distilled,)
        distillation = recipes[distilled]
        assert Path(distillation["model"]).parts[-2 if "mini" in before else -1].startswith(before)
        assert (distillation["k"], distillation["trainer"]["seed"]) == (4, study.seeds[1])
        assert distillation["eval"]["sampling"] == {"samples": 8, "seed": study.seeds[1]}
        assert recipes[evaluation]["model"] == distillation["out"]
    assert refusal_of(trainings_of(study, seeded_models(study))) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distill": {"k": 300}}, "grpo: train.distill.k: must be at most 256"),
        ({"distill": {"k": 2, "rate": 1}}, "grpo: train.distill: unknown key 'rate'"),
        (
            {"distill": {"k": 2, "problems_of_a_round": 900}},
            "grpo: train.distill.problems_of_a_round: must be at most the ",
        ),
        ({"verifier": None}, "grpo: train.verifier: must be a mapping of settings, got None"),
        ({"rewrad": "binary"}, "grpo: train: unknown key 'rewrad'; did you mean 'reward'"),
        ({"verifier": {"workers": 0}}, "grpo: train.verifier.workers: must be an integer of 1"),
        ({"prompt": {"template": "no"}}, "grpo: train.prompt.template: there is no file 'no'"),
        ({"peft": {"rr": 4}}, "grpo: train.peft: unknown key 'rr'"),
        (
            {"distill": {"k": 2, "peft": {"rr": 4}, "trainer": {"use_cpu": True, "bf16": False}}},
            "grpo: train.distill.peft: unknown key 'rr'",
        ),
        ({"reward": "none.py:f"}, "grpo: train.reward: 'none.py' does not exist"),
        ({"reward": "json:none"}, "grpo: train.reward: 'json' has no function 'none'"),
        ({"trainer": {"k": 0, "method": "grop"}}, "grpo: train.trainer.k: must be a whole number"),
        ({"trainer": {"k": 0, "method": "grop"}}, "\ntrain.trainer.method: unknown value 'grop'"),
        ({"trainer": {"num_generations": 200, "k": 1}}, "grpo: "),
    ],
)
def test_what_the_trainer_refuses_names_the_model(recipe, change, message):
    grids = [{"method": {"grpo": {}}}]
    study = load_study(recipe(train={**RECIPE["train"], **change}, grids=grids))
    assert message in refusal_of(trainings_of(study, seeded_models(study)))


def test_the_stages_of_an_outside_model_begin_with_it_and_depend_on_its_files(
    recipe, of_a_llama, tmp_path, capsys
):
    study = load_study(recipe(**of_a_llama))
    stages = planned(study, seeded_models(study), cores=2, jobs=2)
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
    assert main(["study", str(recipe(**{**of_a_llama, "grids": UNTRAINED})), "--dry-run"]) == 0
    assert "eval    2 left" in capsys.readouterr().out


def test_evaluations_depend_on_the_weights_of_an_adapter(recipe, of_a_llama, tmp_path):
    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"first")
    section = {**of_a_llama["eval"], "adapter": str(weights.parent)}
    levels = {"cold": {"eval.sampling.temperature": 0.5}}
    changes = {"train": None, "eval": section, "grids": [{"temperature": levels}]}
    study = load_study(recipe(**{**of_a_llama, **changes}))
    before = names_of(study)
    assert names_of(study) == before
    weights.write_bytes(b"trained again")
    assert not names_of(study) & before


def test_a_distillation_depends_on_the_samples_that_it_is_given(recipe, tmp_path):
    stored = tmp_path / "stored"
    stored.mkdir()
    (stored / "scores.jsonl").write_text("{}\n")
    trainer = {**RECIPE["train"]["trainer"], "max_steps": 0}
    train = {**RECIPE["train"], "trainer": trainer, "distill": {"k": 2, "run": str(stored)}}
    study = load_study(recipe(train=train, grids=[{"way": {"distilled": {}}}]))
    before = names_of(study)
    assert names_of(study) == before
    (stored / "scores.jsonl").write_text("{}\n{}\n")
    changed = before - names_of(study)
    # Its evaluation is of another model too.
    assert {name.rpartition("-")[0] for name in changed} == {
        f"{command}-trained-{seed}" for command in ("distill", "eval") for seed in (1, 2)
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft": {"target_modules": ["no"]}}, "grpo: train.peft: Target modules {'no'} not found"),
        ({"reward": "answer"}, "grpo: Problem 'train-0': has no `answer`"),
    ],
)
def test_what_an_outside_model_and_its_problems_do_not_allow_is_refused(
    recipe, of_a_llama, change, message
):
    of_a_llama["train"] |= change
    study = load_study(recipe(**of_a_llama))
    assert message in refusal_of(trainings_of(study, seeded_models(study)))


def test_equal_models_with_equal_adapters_are_tried_once(recipe, of_a_llama, monkeypatch):
    tried = []
    without_counting = loading_checks.config_to_train

    def counting(config, name, adapter):
        tried.append(name)
        return without_counting(config, name, adapter)

    monkeypatch.setattr(loading_checks, "config_to_train", counting)
    adapter = {"r": 2, "target_modules": ["q_proj"]}
    of_a_llama["train"] |= {"peft": adapter}
    methods = {
        "grpo": {},
        "bon_loo1": {"trainer.method": "bon_loo1", "trainer.k": 2},
        "slower": {"trainer.learning_rate": 1e-6},
    }
    of_a_llama["grids"] = [{"method": methods}]
    study = load_study(recipe(**of_a_llama))
    assert refusal_of(trainings_of(study, seeded_models(study))) is None
    assert len(tried) == 1
    # What differs in anything that decides the loading is tried for itself.
    other_methods = {
        "grpo": {},
        "in bfloat16": {"trainer.model_init_kwargs": {"dtype": "bfloat16"}},
        "bad": {"peft": {**adapter, "target_modules": ["no"]}},
    }
    of_a_llama["grids"] = [{"method": other_methods}]
    study = load_study(recipe(**of_a_llama))
    assert refusal_of(trainings_of(study, seeded_models(study))).startswith(
        "bad: train.peft: Target mod"
    )
    assert len(tried) == 1 + 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": "none.py:f"}, "eval.reward: 'none.py' does not exist"),
        ({"reward": "answer"}, "Problem 'test-0': has no `answer`"),
        ({"by": "level"}, "eval.by: 'level': the problems have no `meta`"),
    ],
)
def test_evaluations_are_tried_before_the_trainings(recipe, of_a_llama, change, message):
    of_a_llama["eval"] |= change
    study = load_study(recipe(**of_a_llama))
    assert refusal_of(trainings_of(study, seeded_models(study))).startswith(message)


def test_a_study_that_trains_nothing_has_evaluations_alone(recipe, of_a_llama):
    grids = [{"temperature": {"hot": {"eval.sampling.temperature": 1.5}}}]
    without_training = {**of_a_llama, "train": None, "grids": grids}
    study = load_study(recipe(**without_training))
    assert {
        stage.name.split("-")[0] for stage in planned(study, seeded_models(study), cores=2, jobs=2)
    } == {"eval"}
    check_study(study, seeded_models(study))
    without_training["eval"] = {**of_a_llama["eval"], "reward": "answer"}
    study = load_study(recipe(**without_training))
    with pytest.raises(InvalidValueError, match="Problem 'test-0': has no `answer`"):
        check_study(study, seeded_models(study))


@pytest.mark.parametrize("section", ["train", "eval"])
def test_rewards_are_tried_with_the_verifier_of_their_section(recipe, of_a_llama, section):
    of_a_llama[section] |= {"verifier": {"sandbox": ["http://127.0.0.1:9"]}}
    study = load_study(recipe(**of_a_llama))
    assert "http://127.0.0.1:9" in refusal_of(trainings_of(study, seeded_models(study)))


def test_stages_depend_on_the_functions_and_templates_that_their_recipes_name(recipe, tmp_path):
    reward = tmp_path / "own.py"
    reward.write_text("def reward(completions, **_):\n    return [1.0] * len(completions)\n")
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}")
    sections = {
        "train": {**RECIPE["train"], "reward": [{"reward": f"{reward}:reward"}]},
        "eval": {**RECIPE["eval"], "prompt": {"template": str(template)}},
    }
    study = load_study(recipe(**sections))
    before = names_of(study)
    assert names_of(study) == before
    template.write_text("{{ messages[0] }}")
    of_template = names_of(study)
    assert {name for name in before if not name.startswith("eval-")} == before & of_template
    reward.write_text("def reward(completions, **_):\n    return [0.0] * len(completions)\n")
    of_reward = names_of(study)
    # The warm starts, and the evaluations of the models before training.
    assert len(of_template & of_reward) == 2 * 2
    assert all(name.startswith(("mini-", "eval-base-")) for name in of_template & of_reward)


def test_seeds_may_have_models_and_problems_of_their_own(recipe, of_a_llama, tmp_path):
    for seed in (1, 2):
        save_tiny_model(tmp_path / f"base-{seed}", architecture="Llama", seed=seed)
        for name in ("train", "test"):
            shutil.copy(tmp_path / f"{name}.jsonl", tmp_path / f"{name}-{seed}.jsonl")
    settings = {**of_a_llama, "model": str(tmp_path / "base-{seed}")}
    for section, name in (("train", "train"), ("eval", "test")):
        problems = str(tmp_path / (name + "-{seed}.jsonl"))
        settings[section] = {**of_a_llama[section], "problems": problems}
    study = load_study(recipe(**settings))
    all_models = seeded_models(study)
    check_files(study, all_models)
    assert refusal_of(trainings_of(study, all_models)) is None
    for seeded_model in all_models:
        evaluation = seeded_model.recipes[seeded_model.chain["eval"]]
        assert evaluation["problems"] == str(tmp_path / f"test-{seeded_model.seed}.jsonl")
        if seeded_model.training is not None:
            training = seeded_model.recipes[seeded_model.chain["train"]]
            assert training["problems"] == str(tmp_path / f"train-{seeded_model.seed}.jsonl")
            assert training["model"] == str(tmp_path / f"base-{seeded_model.seed}")
    with pytest.raises(InvalidValueError, match="lies inside the model of seed 2"):
        check_study(load_study(recipe(**settings, out=str(tmp_path / "base-2" / "out"))), [])
    (tmp_path / "train-2.jsonl").unlink()
    with pytest.raises(MissingFileError, match=r"train-2\.jsonl"):
        check_study(study, all_models)
    shutil.rmtree(tmp_path / "base-1")
    with pytest.raises(MissingFileError, match=r"base-1"):
        check_study(study, all_models)


def test_an_evaluation_waits_for_its_training_and_a_training_for_its_warm_start(recipe):
    study = load_study(recipe())
    stages = list(planned(study, seeded_models(study), cores=4, jobs=2))
    before = set()
    for stage in stages:
        assert set(stage.needs) <= before
        before.add(stage.name)
    needs = {stage.name: stage.needs for stage in stages}
    for seeded_model in seeded_models(study):
        made = (
            seeded_model.chain["mini"]
            if seeded_model.training is None
            else seeded_model.training.name
        )
        assert needs[seeded_model.chain["eval"]] == (made,)
        if seeded_model.training is not None:
            assert needs[seeded_model.training.name] == (seeded_model.chain["mini"],)


@pytest.mark.parametrize(("cores", "warm", "others"), [(1, 1, 1), (8, 4, 1)])
def test_a_warm_start_has_the_cores_that_those_of_other_seeds_leave_it(recipe, cores, warm, others):
    threads = {}
    study = load_study(recipe())
    for stage in planned(study, seeded_models(study), cores=cores, jobs=4):
        threads.setdefault(stage.name.partition("-")[0], set()).add(stage.threads)
    assert threads == {"mini": {warm}, "train": {others}, "eval": {others}}


def test_another_model_has_all_cores_between_the_stages_at_once(recipe, of_a_llama):
    study = load_study(recipe(**of_a_llama))
    assert {stage.threads for stage in planned(study, seeded_models(study), cores=8, jobs=2)} == {4}


def test_a_stage_reads_the_recipe_that_is_written_for_it(recipe):
    study = load_study(recipe())
    stages = planned(study, seeded_models(study), cores=2, jobs=2)
    write_recipes(study, stages)
    for stage, settings in stages.items():
        (path,) = (part for part in stage.arguments if part.endswith(".yaml"))
        assert yaml.safe_load(Path(path).read_text()) == json.loads(json.dumps(settings))


def test_studies_of_one_work_folder_say_what_their_stages_are(recipe, tmp_path):
    rates = {"1": {"trainer.learning_rate": 1e-4}, "2": {"trainer.learning_rate": 2e-4}}
    grids = [{"method": {"grpo": {"trainer.method": "grpo"}}, "rate": rates}]
    first = load_study(recipe(grids=grids, seeds=[1], checkpoints=[1, 2]))
    second = load_study(recipe("b.yaml", grids=grids, seeds=[2]))
    for study in (first, second):
        write_stage_names(study, seeded_models(study))
    names = json.loads((tmp_path / "work" / "stages.json").read_text())
    called = {}
    for seeded_model in seeded_models(first) + seeded_models(second):
        called[names[seeded_model.chain["eval"]]] = seeded_model
    assert called.keys() == {
        "eval base, seed 1", "eval base, seed 2", "eval grpo,rate=1, seed 2",
        "eval grpo,rate=2, seed 2", *(f"eval grpo,rate={rate},steps={steps}, seed 1"
        for rate in (1, 2) for steps in (1, 2)),
    }  # fmt: skip
    of_checkpoint = called["eval grpo,rate=2,steps=1, seed 1"]
    assert names[of_checkpoint.chain["train"]] == "train grpo,rate=2, seed 1"
    assert names[of_checkpoint.chain["mini"]] == "mini, seed 1"


def test_the_check_does_not_wait_for_a_process_that_a_reward_leaves(recipe, leaving):
    reward, goes_on = leaving
    study = load_study(recipe(eval={**RECIPE["eval"], "reward": reward}, grids=UNTRAINED))
    check_study(study, seeded_models(study))
    assert goes_on()


def test_the_check_of_the_trainings_that_dies_is_said(recipe, monkeypatch):
    study = load_study(recipe())
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(StageError, match="the check of the trainings failed"):
        check_study(study, seeded_models(study))
