"""Low-rank adapters, checkpointed gradients and bfloat16 leave the advantages exact."""

import json
import sys

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM

from maxatk.errors import InvalidValueError, MissingDependencyError
from maxatk.folders import TRAIN_RECORD
from maxatk.models import load_tokenizer
from maxatk.settings import from_mapping
from maxatk.train import TrainRecipe, train
from maxatk.train.batch import GROUP_ROW
from maxatk.train.recipe import lora_config

from .conftest import GROUP, SpyTrainer, config, text_reward
from .expected import brute_force, row_logps

LORA = {"r": 4, "lora_alpha": 64, "target_modules": ["q_proj", "v_proj"]}
OFF_POLICY = {"method": "bon_off_policy_exact", "num_iterations": 2, "max_steps": 2}
SPLIT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}


class Policy(SpyTrainer):
    """Keeps log pi of every generated row under the policy of each optimizer step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.logps = {}

    def _compute_loss(self, model, inputs):
        if self.state.global_step not in self.logps:
            self.logps[self.state.global_step] = row_logps(model, self.generations[0][1])
        return super()._compute_loss(model, inputs)


def make(model_folder, prompts, tmp_path, *, peft=None, **changes):
    return Policy(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, **{**OFF_POLICY, **changes}),
        train_dataset=prompts,
        peft_config=lora_config(peft),
    )


@pytest.mark.parametrize(
    "peft, changes, tolerance",
    [
        (LORA, {"learning_rate": 1.0}, 2e-5),
        (LORA, {"learning_rate": 1.0, "gradient_checkpointing": True, **SPLIT}, 2e-5),
        (None, {"gradient_checkpointing": True}, 2e-5),
        (None, {"bf16": True, "learning_rate": 0.3, **SPLIT}, 2e-2),
    ],
    ids=["LoRA", "LoRA, gradient checkpointing", "gradient checkpointing", "bf16"],
)
def test_advantages_match_brute_force(model_folder, prompts, tmp_path, peft, changes, tolerance):
    trainer = make(model_folder, prompts, tmp_path, peft=peft, **changes)
    trainer.train()
    rewards = trainer.generations[0][2].double().numpy().reshape(-1, GROUP)
    on_policy = trainer.generations[0][1]["advantages"].numpy()
    expected = {}
    for step, logps in trainer.logps.items():
        log_ratios = (logps - trainer.logps[0]).reshape(-1, GROUP)
        values = brute_force("bon_off_policy_exact", rewards, log_ratios, k=2, form="ppo")
        expected[step] = values.reshape(-1)
    assert np.abs(expected[1] - on_policy).max() > 2 * tolerance
    for batch in trainer.seen:
        expected_rows = expected[batch.step][batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(
            batch.inputs["advantages"].numpy(), expected_rows, atol=tolerance
        )


def test_a_recipe_with_an_adapter_gives_a_whole_model_and_the_adapter(toy_recipe, model_folder):
    recipe = toy_recipe(learning_rate=1e-2, optim="sgd")
    recipe["peft"] = {**LORA, "init_lora_weights": False}  # an adapter that is not 0 from the start
    out = train(from_mapping(TrainRecipe, recipe, where="recipe"))
    before = AutoModelForCausalLM.from_pretrained(model_folder).state_dict()
    after = AutoModelForCausalLM.from_pretrained(out).state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all("q_proj.weight" in name or "v_proj.weight" in name for name in moved)
    assert (out / "adapter" / "adapter_model.safetensors").is_file()
    assert load_tokenizer(str(out))("1 2 > 3")["input_ids"]
    assert json.loads((out / TRAIN_RECORD).read_text())["recipe"]["peft"] == recipe["peft"]


def test_settings_of_an_adapter_are_checked(monkeypatch):
    assert lora_config(None) is None
    adapter = lora_config({"r": 3})
    assert isinstance(adapter, LoraConfig)
    assert (adapter.r, adapter.task_type) == (3, "CAUSAL_LM")
    with pytest.raises(InvalidValueError, match="unknown key 'lora_alhpa'; did you mean 'lora_al"):
        lora_config({"lora_alhpa": 1})
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'maxatk\[peft\]'"):
        lora_config({"r": 3})
