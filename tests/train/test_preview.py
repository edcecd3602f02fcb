"""The dry run: everything is checked, weights are not needed, the numbers are those of a run."""

import json
import re
import shutil

import pytest
import yaml
from transformers import AutoConfig, AutoModelForCausalLM

from maxatk.cli.main import main
from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.jsonl import write_jsonl
from maxatk.settings import from_mapping
from maxatk.train import TrainRecipe, preview
from maxatk.train.adapter import lora_config
from maxatk.train.memory import estimate

from .conftest import config

TRAINER = {
    "k": 2,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_completion_length": 6,
    "use_cpu": True,
    "report_to": "none",
}


@pytest.fixture
def recipe(tmp_path, model_folder, mini_problems):
    """A recipe whose model folder has no weights."""
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    write_jsonl(tmp_path / "problems.jsonl", (p.problem.to_json() for p in mini_problems))
    return {
        "model": str(tmp_path / "model"),
        "problems": str(tmp_path / "problems.jsonl"),
        "out": str(tmp_path / "out"),
        "trainer": dict(TRAINER),
    }


def look(recipe):
    return preview(from_mapping(TrainRecipe, recipe, where="recipe"))


def dry_run(tmp_path, recipe, *arguments):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return main(["train", str(path), *arguments, "--dry-run"])


def test_it_shows_what_the_run_would_do_and_writes_nothing(recipe, tmp_path, capsys):
    assert dry_run(tmp_path, recipe, "trainer.num_iterations=3") == 0
    text = capsys.readouterr().out
    assert "8 completions per rollout batch: 2 prompts x 4" in text
    assert "3 optimizer steps per rollout batch" in text
    assert "advantages times the 4 samples of a group, for a loss that is a mean" in text
    assert "108 optimizer steps, 36 rollout batches, 288 completions in all" in text
    given, defaults = text.split("defaults (")
    assert "num_iterations=3" in given
    assert "method=bon_loo1" in defaults
    assert "adam_beta1" not in defaults  # of transformers, as 180 others
    assert re.search(r"\d{3} more, of TRL and transformers: --format json lists them", defaults)
    assert not (tmp_path / "out").exists()


def test_a_lag_is_shown_with_the_copies_it_holds(recipe, tmp_path, capsys):
    changes = ("trainer.rollout_lag=4", "trainer.num_iterations=3")
    assert dry_run(tmp_path, recipe, *changes) == 0
    text = capsys.readouterr().out
    assert "sampled with the weights of 4 optimizer steps ago" in text
    assert "lagged" in text
    assert dry_run(tmp_path, recipe, *changes, "--format", "json") == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert memory["lagged"] == 2 * memory["weights"]  # two generations lie within four steps
    assert dry_run(tmp_path, recipe) == 0
    assert "lagged" not in capsys.readouterr().out


def test_json_holds_the_same(recipe, tmp_path, capsys):
    assert dry_run(tmp_path, recipe, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["optimizer_steps"] == 36
    assert found["given"] == {**TRAINER, "report_to": []}
    assert found["defaults"]["k_schedule"] == "constant"
    assert not found["given"].keys() & found["defaults"].keys()
    assert found["memory"]["total"] > found["memory"]["weights"] > 0


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
        ({"peft": {"rank": 4}}, InvalidValueError, r"peft: unknown key 'rank'.*allowed: .*lora_a"),
    ],
)
def test_what_a_run_would_refuse_is_refused(recipe, changes, error, message):
    with pytest.raises(error, match=message):
        look({**recipe, **changes})


def test_names_on_the_hub_are_allowed_without_their_config(recipe, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found = look({**recipe, "model": "owner/model"})
    assert found.memory is None
    assert "owner/model" in found.memory_unknown
    recipe["trainer"]["max_steps"] = 5
    found = look({**recipe, "model": "owner/model", "problems": "mbpp"})
    assert (found.plan.problems, found.plan.rollout_batches) == (None, 5)


def test_the_memory_of_weights_gradients_and_states_is_counted_from_the_model(
    model_folder, tmp_path
):
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    count = sum(weight.numel() for weight in model.parameters())
    found = estimate(model.config, config(tmp_path), adapter=None, prompt_tokens=10)
    assert found.parameters == found.trained_parameters == count
    assert (found.weights, found.gradients, found.optimizer) == (4 * count, 4 * count, 0)  # SGD
    assert found.reference == 0
    settings = config(
        tmp_path, optim="adamw_torch", beta=0.1, model_init_kwargs={"dtype": "bfloat16"}
    )
    found = estimate(model.config, settings, adapter=None, prompt_tokens=10)
    assert (found.weights, found.gradients, found.optimizer) == (2 * count, 2 * count, 4 * count)
    assert found.reference == 2 * count
    assert found.tokens_a_sequence == 16
    longer = estimate(model.config, settings, adapter=None, prompt_tokens=100)
    assert longer.activations > found.activations
    assert longer.cache > found.cache


def test_an_adapter_trains_few_parameters_and_needs_no_reference(model_folder, tmp_path):
    model = AutoConfig.from_pretrained(model_folder)
    adapter = lora_config({"r": 2, "target_modules": ["q_proj"]})
    settings = config(tmp_path, optim="adamw_torch", beta=0.1)
    found = estimate(model, settings, adapter=adapter, prompt_tokens=10)
    heads = model.num_attention_heads * model.head_dim if hasattr(model, "head_dim") else 0
    outputs = heads or model.hidden_size
    expected = 2 * (model.hidden_size + outputs) * model.num_hidden_layers
    assert found.trained_parameters == expected
    assert found.optimizer == 8 * expected
    assert found.reference == 0
