"""The dry run: everything is checked, weights are not needed, the counts are those of a run."""

import dataclasses
import json
import re
import shutil
import warnings

import pytest
import yaml

from maxatk.cli.main import main
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.settings import from_mapping
from maxatk.train import TrainRecipe, preview
from maxatk.train.preview import plan
from maxatk.writing import OutFolder

from .conftest import TRAINER, config


@pytest.fixture
def recipe(tmp_path, model_folder, toy_recipe):
    """A recipe whose model folder has no weights."""
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    mapping = {**toy_recipe(), "model": str(tmp_path / "model")}
    del mapping["trainer"]["max_steps"]
    return mapping


def look(recipe):
    return preview(from_mapping(TrainRecipe, recipe, where="recipe"))


def dry_run(tmp_path, recipe, *arguments):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return main(["train", str(path), *arguments, "--dry-run"])


def test_it_shows_what_the_run_would_do_and_writes_nothing(recipe, tmp_path, capsys):
    changes = ("trainer.num_iterations=3", "trainer.method=bon_off_policy")
    assert dry_run(tmp_path, recipe, *changes) == 0
    text = capsys.readouterr().out
    shown = dict(re.findall(r"^  (\S.*?)  +(.*)$", text, re.MULTILINE))
    assert (shown["completions per rollout batch"], shown["group size"]) == ("8", "4")
    assert (shown["steps per rollout batch"], shown["optimizer steps"]) == ("3", "108")
    assert (shown["rollout batches"], shown["completions"]) == ("36", "288")
    assert shown["extra pass for ratios"] == "no"
    assert int(shown["longest prompt (tokens)"]) > 0
    assert shown["num iterations"] == "3"
    assert "adam beta1" not in shown  # was not given
    assert not (tmp_path / "out").exists()


def test_json_holds_the_same(recipe, tmp_path, capsys):
    assert dry_run(tmp_path, recipe, "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["plan"]["optimizer_steps"] == 36
    assert shown["trainer"] == recipe["trainer"]
    assert shown["unchecked"] == ""


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"model": "./none"}, MissingFileError, "there is no folder './none'"),
        ({"problems": "none.jsonl"}, MissingFileError, "none.jsonl: no such file"),
        ({"trainer": {**TRAINER, "k": 9}}, InvalidValueError, "k: must be a whole number"),
        (
            {"trainer": {**TRAINER, "per_device_train_batch_size": 128}},
            InvalidValueError,
            "problems: has 24 prompts, fewer than the 32",
        ),
        (
            {"trainer": {**TRAINER, "max_completion_length": 120}},
            InvalidValueError,
            r"prompt of \d+ tokens and trainer\.max_completion_length=120 exceed .* of 128",
        ),
        ({"peft": {"rank": 4}}, InvalidValueError, r"peft: unknown key 'rank'.*allowed: .*lora_a"),
        ({"peft": {"r": 0}}, InvalidValueError, r"peft: `r` should be a positive integer"),
        (
            {"peft": {"target_modules": ["nosuch"]}},
            InvalidValueError,
            r"peft: Target modules {'nosuch'} not found",
        ),
        (
            {"trainer": {**TRAINER, "model_init_kwargs": {"dtype": "bf16"}}},
            InvalidValueError,
            r"model_init_kwargs\.dtype: must be one of auto, bfloat16, .* got 'bf16'",
        ),
        (
            {"trainer": {**TRAINER, "model_init_kwargs": {"torch_dtype": "bfloat16"}}},
            InvalidValueError,
            r"model_init_kwargs\.torch_dtype: is not read by TRL, which has the name `dtype`",
        ),
        (
            {"trainer": {**TRAINER, "model_init_kwargs": {"attn_implementation": "eagre"}}},
            InvalidValueError,
            r'model_init_kwargs: .*attn_implementation="eagre"` is not supported',
        ),
        (
            {"trainer": {**TRAINER, "model_init_kwargs": {"use_cahce": False}}},
            InvalidValueError,
            r"model_init_kwargs: .*unexpected keyword argument 'use_cahce'",
        ),
        (
            {"trainer": {**TRAINER, "sync_ref_model": True, "beta": 0.1}, "peft": {"r": 2}},
            InvalidValueError,
            r"sync_ref_model: must be False with an adapter",
        ),
        (
            {"trainer": {"max_steps": -1, "num_train_epochs": 0}},
            InvalidValueError,
            r"num_train_epochs: must be positive and finite, got 0",
        ),
    ],
)
def test_what_a_run_would_refuse_is_refused(recipe, changes, error, message):
    with pytest.raises(error, match=message):
        look({**recipe, **changes})


def test_how_a_model_is_loaded_is_tried_without_its_weights_or_a_word(recipe, capfd, caplog):
    loading = {"dtype": "bfloat16", "attn_implementation": "eager", "device_map": "cpu"}
    other_options = {"use_cache": False, "low_cpu_mem_usage": True, "revision": "main"}
    recipe["trainer"]["model_init_kwargs"] = {**loading, **other_options}
    assert look(recipe).plan["optimizer_steps"] == 36
    assert "MISSING" not in capfd.readouterr().err + caplog.text


def test_a_type_that_this_cpu_has_no_instructions_for_is_told_of(recipe, cpuinfo):
    recipe["trainer"]["model_init_kwargs"] = {"dtype": "bfloat16"}
    cpuinfo("flags : fma avx avx2\n")
    with pytest.warns(UserWarning, match="this CPU has no instructions for bfloat16"):
        look(recipe)
    cpuinfo("flags : fma avx avx2 avx512_bf16\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        look(recipe)


def test_a_run_that_is_under_way_may_be_looked_at_with_its_own_settings_alone(recipe, tmp_path):
    out = tmp_path / "out"
    settings = dataclasses.asdict(from_mapping(TrainRecipe, recipe, where="recipe"))
    other = {**recipe, "trainer": {**recipe["trainer"], "seed": 5}}
    with OutFolder(out, "train", ()).alone():
        write_json(out / TRAIN_RECORD, {"recipe": settings})
        assert look(recipe).plan["optimizer_steps"] == 36
        with pytest.raises(InvalidValueError, match=r"trainer\.seed: .* in the folder, 5 now"):
            look(other)
    assert look(other).plan == look(recipe).plan  # it kept nothing when it ended


def test_show_config_prints_a_recipe_with_the_defaults_of_this_package(recipe, tmp_path, capsys):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    assert main(["train", str(path), "trainer.k=3", "--show-config"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["trainer"]["k"] == 3
    assert shown["trainer"]["k_schedule"] == "constant"
    assert shown["verifier"]["time_limit"] > 0
    assert look(shown).plan == look({**recipe, "trainer": {**recipe["trainer"], "k": 3}}).plan


def own_reward(tmp_path, body):
    (tmp_path / "own.py").write_text(f"def reward(completions, **_):\n    {body}\n")
    return f"{tmp_path}/own.py:reward"


def test_an_own_reward_function_is_called_with_three_completions(recipe, tmp_path, capsys):
    reward = own_reward(tmp_path, "return [1 / len(c) for c in completions]")
    recipe["reward"] = [{"reward": reward, "on_error": "zero"}]
    assert dry_run(tmp_path, recipe) == 0
    text = capsys.readouterr().out
    assert re.search(
        "reward of three completions +raised ZeroDivisionError: division by zero, 1.0, ", text
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [c.group(1) for c in completions]", r"failed for 3 of 3(?s:.*)own.py., line 2"),
        ("return [1.0]", "returned 1 value for 3 completions"),
        ("return [1.0] * len(kwargs['gold'])", "NameError"),
    ],
)
def test_a_reward_that_never_works_is_refused(recipe, tmp_path, body, message):
    with pytest.raises(InvalidValueError, match=message):
        look({**recipe, "reward": own_reward(tmp_path, body)})


def test_a_reward_that_its_problems_cannot_have_is_refused(recipe, tmp_path):
    with pytest.raises(InvalidValueError, match="has no visible_tests"):
        look({**recipe, "reward": "visible_tests"})
    with pytest.raises(MissingFileError, match=r"none\.py' does not exist"):
        look({**recipe, "reward": "none.py:reward"})


def test_names_on_the_hub_are_allowed_without_their_config(recipe, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    outlook = look({**recipe, "model": "owner/model"})
    assert outlook.prompt_tokens is None
    assert "owner/model" in outlook.unchecked
    recipe["trainer"]["max_steps"] = 5
    outlook = look({**recipe, "model": "owner/model", "problems": "mbpp"})
    assert (outlook.plan["problems"], outlook.plan["rollout_batches"]) == (None, 5)


GEOMETRIES = {
    "reused, split groups": {
        "num_iterations": 3,
        "max_steps": 7,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
    },
    "steps that straddle generations": {
        "per_device_train_batch_size": 2,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 3,
        "num_iterations": 2,
        "max_steps": 6,
    },
    "several generations a step": {
        "steps_per_generation": 1,
        "gradient_accumulation_steps": 2,
        "max_steps": 2,
    },
    "whole groups, epochs": {"max_steps": -1, "num_train_epochs": 1.5, "num_iterations": 2},
    "epochs that do not divide": {
        "max_steps": -1,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 4,
        "steps_per_generation": 5,
        "gradient_accumulation_steps": 3,
        "num_iterations": 2,
    },
}


@pytest.mark.parametrize("settings", GEOMETRIES.values(), ids=GEOMETRIES)
def test_counts_are_those_of_a_real_run(make_trainer, settings):
    trainer = make_trainer(method="bon_off_policy_exact", max_completion_length=2, **settings)
    trainer.train()
    counts = plan(trainer.args, problems=len(trainer.train_dataset))
    assert trainer.state.global_step == trainer.state.max_steps == counts["optimizer_steps"]
    assert len(trainer.generations) == counts["rollout_batches"]
    drawn = sum(len(rows["advantages"]) for _, rows, _ in trainer.generations)
    assert drawn == counts["completions"]
    assert trainer._rollout.whole == trainer.args.ratios_in_loss
    assert not (trainer._rollout.whole and counts["extra_pass_for_ratios"])


def test_what_the_number_of_problems_decides(tmp_path):
    settings = config(tmp_path, per_device_train_batch_size=16, max_steps=-1, num_train_epochs=2)
    counts = plan(settings, problems=10)
    prompts = "prompts_per_rollout_batch"
    completions = "completions_per_rollout_batch"
    assert (counts[prompts], counts[completions]) == (4, 16)
    assert (counts["rollout_batches"], counts["optimizer_steps"], counts["epochs"]) == (4, 4, 2.0)
    with pytest.raises(InvalidValueError, match="problems: has 3 prompts, fewer than the 4"):
        plan(settings, problems=3)
    with pytest.raises(InvalidValueError, match="max_steps: must be given where the number"):
        plan(settings, problems=None)
    assert plan(config(tmp_path), problems=None)["rollout_batches"] == 3
