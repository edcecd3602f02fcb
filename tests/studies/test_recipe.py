"""The recipe of a study: its models, what it extends, and what is refused."""

import dataclasses

import pytest

from maxatk.errors import InvalidValueError
from maxatk.studies.recipe import load_study
from studies.conftest import RECIPE


def test_models_are_all_combinations_of_levels_and_the_base(recipe):
    variants = load_study(recipe()).variants
    assert [model.name for model in variants] == ["base", "grpo", "loo,updates=1", "loo,updates=2"]
    assert variants[2].levels == {"method": "loo", "updates": "1"}
    assert variants[2].train["trainer"]["num_iterations"] == 1
    assert variants[2].train["trainer"]["method"] == "bon_loo1"
    assert variants[2].train["trainer"]["k"] == RECIPE["train"]["trainer"]["k"]


def test_pairs_are_models_that_differ_by_the_two_levels_alone(recipe):
    updates = {1: {"trainer.num_iterations": 1}, 2: {"trainer.num_iterations": 2}}
    methods = {name: {"trainer.method": name} for name in ("bon_loo1", "bon_mean")}
    grids = [
        {"method": methods, "updates": updates},
        {"method": {"grpo": {"trainer.method": "grpo"}}, "updates": {1: updates[1]}},
    ]
    pairs = [["bon_mean", "bon_loo1"], ["grpo", "bon_mean"], ["2", "1"]]
    study = load_study(recipe(grids=grids, pairs=pairs))
    assert study.paired_names() == [
        ("bon_mean,updates=1", "bon_loo1,updates=1"),
        ("bon_mean,updates=2", "bon_loo1,updates=2"),
        ("grpo,updates=1", "bon_mean,updates=1"),
        ("bon_loo1,updates=2", "bon_loo1,updates=1"),
        ("bon_mean,updates=2", "bon_mean,updates=1"),
    ]


def test_a_pair_may_be_two_models_that_differ_on_several_axes(recipe):
    rates = {"low": {"trainer.learning_rate": 1.0e-4}, "high": {"trainer.learning_rate": 2.0e-4}}
    methods = {name: {"trainer.method": name} for name in ("bon_loo1", "grpo")}
    pair = ["bon_loo1,rate=high,steps=3", "grpo,rate=low,steps=2"]
    grids = [{"method": methods, "rate": rates}]
    study = load_study(recipe(grids=grids, checkpoints=[2, 3], pairs=[pair]))
    assert study.paired_names() == [tuple(pair)]
    with pytest.raises(InvalidValueError, match=r"the models .*, grpo,rate=low,steps=3"):
        load_study(recipe(grids=grids, checkpoints=[2, 3], pairs=[[pair[0], "grpo,rate=low"]]))


def test_a_level_may_have_the_name_of_the_model_before_training(recipe):
    rates = {"base": {"trainer.learning_rate": 1.0e-4}, "twice": {"trainer.learning_rate": 2.0e-4}}
    grids = [{"method": {"grpo": {"trainer.method": "grpo"}}, "rate": rates}]
    study = load_study(recipe(grids=grids, pairs=[["twice", "base"]]))
    assert study.paired_names() == [("grpo,rate=twice", "grpo,rate=base")]


def test_levels_of_one_name_on_two_axes_are_exchanged_one_axis_at_a_time(recipe):
    grids = [
        {
            "k": {"low": {"trainer.k": 2}, "high": {"trainer.k": 3}},
            "rate": {
                "low": {"trainer.learning_rate": 1.0e-4},
                "high": {"trainer.learning_rate": 2.0e-4},
            },
        }
    ]
    study = load_study(recipe(grids=grids, pairs=[["low", "high"]]))
    assert study.paired_names() == [
        ("low,rate=low", "high,rate=low"),
        ("low,rate=low", "low,rate=high"),
        ("low,rate=high", "high,rate=high"),
        ("high,rate=low", "high,rate=high"),
    ]


@pytest.mark.parametrize("value", ["a 😀 face", "Infinity", {"on": [1e-05, None]}])
def test_a_level_sets_any_value_that_a_recipe_holds(recipe, value):
    path = recipe(grids=[{"run": {"named": {"trainer.run_name": value}}}])
    (_, variant) = load_study(path).variants
    assert variant.train["trainer"]["run_name"] == value


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


def test_mappings_of_an_extended_recipe_are_laid_over_each_other(recipe, tmp_path):
    recipe("first.yaml")
    second = tmp_path / "second.yaml"
    second.write_text(
        "extends: first.yaml\nmini: {tests: 3}\ntrain: {trainer: {num_iterations: 1}}\n"
    )
    first = load_study(tmp_path / "first.yaml")
    merged = load_study(second)
    assert merged.mini == dataclasses.replace(first.mini, tests=3)
    assert merged.train == {
        **first.train,
        "trainer": {**first.train["trainer"], "num_iterations": 1},
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": []}, "seeds"),
        ({"grids": []}, "grids: must hold a model beside the base, got none"),
        ({"out": "a/b", "work": "a/b/"}, "work: must not be 'out', 'a/b', nor hold it"),
        ({"out": "a/b", "work": "a"}, "work: must not be 'out', 'a/b', nor hold it, got 'a'"),
        ({"seeds": [1, 1]}, "seeds: must be different whole numbers from 0, below 4294967296"),
        ({"seeds": [1, -1]}, r"seeds: must be different .*, got \[1, -1\]"),
        ({"seeds": [1 << 32]}, "seeds: must be different"),
        ({"grids": [{"method": {"grpo": {}}}, {"method": {"grpo": {}}}]}, "'grpo' is there twice"),
        (
            {"grids": [{"n": {"32": {"eval.sampling.samples": 32}}}]},
            r"grids\[0\].n.32: 'eval.sampling.samples': must be the same for all models of a study",
        ),
        ({"train": None, "checkpoints": [1]}, "checkpoints: the recipe has no section 'train'"),
        (
            {"train": None},
            "grids: 'trainer.method': the recipe has no section 'train'",
        ),
        (
            {"grids": [{"tests": {"few": {"eval.problems": "few.jsonl"}}}]},
            "'eval.problems': must be the same for all models of a study",
        ),
        (
            {"grids": [{"heat": {"hot": {"eval.sampling.temprature": 2.0}}}]},
            "recipe.eval.sampling: unknown key 'temprature'; did you mean 'temperature'",
        ),
        ({"grids": [{"method": ["grpo"]}]}, r"grids\[0\].method"),
        ({"grids": [{"method": {"gr\npo": {}}}]}, "grids: a name must be printable text"),
        ({"grids": [{"method": {"grpo": "grpo"}}]}, r"grids\[0\].method.grpo"),
        (
            {"grids": [{"a": {"x": {"trainer.k": 2}}, "b": {"y": {"trainer.k": 4}, "z": {}}}]},
            r"grids\[0\]: the axes 'a' and 'b' both change trainer.k, and one would undo",
        ),
        (
            {"grids": [{"a": {"x": {"trainer": {"k": 2}}}, "b": {"y": {"trainer.k": 4}}}]},
            r"grids\[0\]: the axes 'a' and 'b' both change trainer and trainer.k,",
        ),
        ({"baseline": "gpro"}, "baseline"),
        ({"model": "some/model"}, "must have either 'model' or 'mini'"),
        ({"mini": None}, "must have either 'model' or 'mini'"),
        ({"mini": None, "model": "m"}, "eval: the key 'problems' is required beside 'model'"),
        ({"train": {"problems": "p.jsonl"}}, "train.problems: is set by the study itself"),
        ({"eval": {"model": "m"}}, "eval.model: is set by the study itself"),
        ({"train": {"trainer": {"seed": 3}}}, "train.trainer.seed: is that of 'seeds'"),
        ({"train": {"trainer": 3}}, "train.trainer: must be a mapping, got 3"),
        ({"mini": {"seed": 3}}, r"^recipe\.mini\.seed: is that of 'seeds'; leave it out"),
        (
            {"train": {"distill": {"k": 2, "eval": None}}},
            "train.distill.eval: must be a mapping, got None",
        ),
        (
            {"train": {"distill": {"k": 2, "eval": {"sampling": None}}}},
            "train.distill.eval.sampling: must be a mapping, got None",
        ),
        ({"eval": {"sampling": {"sampels": 1}}}, "recipe.eval.sampling: unknown key 'sampels'"),
        (
            {"eval": {"batch_size": 0}},
            r"^recipe\.eval\.batch_size: must be an integer of 1",
        ),
        (
            {"eval": {"k": [1, 9], "sampling": {"samples": 8}}},
            r"^recipe\.eval\.k: must be an integer from 1 to the 8 samples of a problem, got 9",
        ),
        ({"eval": {"sampling": {"samples": 0}}}, r"^recipe\.eval\.sampling\.samples: must be an"),
        ({"eval": {"verifier": {"time_limit": 0}}}, r"^recipe\.eval\.verifier\.time_limit: must"),
        (
            {"mini": {"warm_start": {"problems": 0}}},
            r"^recipe\.mini\.warm_start\.problems: must",
        ),
        (
            {"front": {"rivals": ["a"], "ks": [1]}},
            r"^recipe\.front\.ks: must be different whole numbers",
        ),
        ({"grids": [{"method": {" ": {}}}]}, "grids: a name must be printable text, got ' '"),
        (
            {"grids": [{"steps": {"grpo": {}}}], "checkpoints": [1]},
            r"grids\[0\].steps: is the axis",
        ),
        ({"ks": []}, r"ks: must be different whole numbers from 1, got \[\]"),
        ({"ks": [1, 0]}, r"ks: must be different whole numbers from 1, got \[1, 0\]"),
        ({"ks": [8, 8]}, r"ks: must be different whole numbers from 1, got \[8, 8\]"),
        ({"pairs": [["loo"]]}, "pairs: each must be two different levels"),
        ({"pairs": [["loo", "loo"]]}, "pairs: each must be two different levels"),
        (
            {"pairs": [["1", "2"], ["loo,updates=2", "loo,updates=1"]]},
            "pairs: 'loo,updates=2' and 'loo,updates=1' are paired twice",
        ),
        ({"pairs": [["loo", "base"]]}, "names 'base'; every model is tested against"),
        ({"pairs": [["loo", "exact"]]}, "pairs: no two models .* levels are 1, 2, grpo, loo"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(recipe, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        load_study(recipe(**changes))


@pytest.mark.parametrize("value", [None, "", 3, ["a.jsonl", "b.jsonl"], {"path": "a.jsonl"}])
@pytest.mark.parametrize("where", ["train", "eval", "front.choose"])
def test_problems_of_another_type_than_text_are_refused_by_their_name(recipe, where, value):
    sections = {name: {"problems": "p.jsonl"} for name in ("train", "eval", "front.choose")}
    sections[where] = {"problems": value}
    front = {"rivals": ["grpo"], "ks": [2], "choose": sections.pop("front.choose")}
    changes = {"mini": None, "model": "m", "front": front, **sections}
    message = rf"{where}\.problems: must be a benchmark's name or the path of a file, got"
    with pytest.raises(InvalidValueError, match=message):
        load_study(recipe(**changes))


def test_an_evaluation_of_a_study_is_no_shard(recipe):
    with pytest.raises(InvalidValueError, match=r"recipe.eval.shard: must be left out of a study"):
        load_study(recipe(eval={**RECIPE["eval"], "shard": "1/2"})).eval_recipe(seed=1)
