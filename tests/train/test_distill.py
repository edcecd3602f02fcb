"""Best-of-N distillation: its loss, its rounds, and what it refuses."""

import json
import math
import pickle
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import Unigram
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from trl import SFTConfig

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.folders import TRAIN_RECORD
from maxatk.models import PromptSettings, prompt_ids
from maxatk.settings import from_mapping
from maxatk.train import DistillRecipe, distill, plan_distillation
from maxatk.train.distill_recipe import config_of
from maxatk.train.weighted_sft import WeightedSFTTrainer, sft_dataset
from train.weights import are_equal, break_gradients, copied

TRAINER = {
    "per_device_train_batch_size": 16,
    "max_steps": 2,
    "learning_rate": 1e-2,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
}


@pytest.fixture
def recipe(toy_recipe):
    toy = toy_recipe()
    verifier = toy.pop("verifier")
    reward = toy.pop("reward")
    sampling = {"samples": 4, "max_new_tokens": 60, "stop_at_fence": False}
    return {
        **toy,
        "k": 2,
        "eval": {"sampling": sampling, "verifier": verifier, "reward": reward},
        "trainer": TRAINER,
    }


def run(recipe, *, progress=None, **changes):
    chosen = from_mapping(DistillRecipe, {**recipe, **changes}, where="recipe")
    return distill(chosen, progress=progress)


def weighted(rows, *, batch, folder, model):
    tokenizer = AutoTokenizer.from_pretrained(model)
    return WeightedSFTTrainer(
        model=str(model),
        train_dataset=sft_dataset(rows, tokenizer),
        args=SFTConfig(
            str(folder),
            **{**TRAINER, "max_steps": 1, "optim": "sgd", "per_device_train_batch_size": batch},
            gradient_accumulation_steps=4 // batch,
            max_grad_norm=0.0,
            lr_scheduler_type="constant",
            remove_unused_columns=False,
            disable_tqdm=True,
        ),
        processing_class=tokenizer,
    )


def test_the_end_token_is_learned_whatever_a_program_ends_in():
    """A tokenizer with a token over the first letter of the end token, as merges make one."""
    words = ["a", "b", "a<", "<", "|", "end", ">", "<|end|>"]
    tokenizer = Tokenizer(Unigram([(word, -float(i)) for i, word in enumerate(words)], unk_id=0))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.add_tokens([AddedToken("a<", normalized=False)], special_tokens=True)
    assert fast("a" + fast.eos_token)["input_ids"][-1] != fast.eos_token_id, "nothing is tested"
    row = {"prompt": [{"content": "b"}], "completion": [{"content": "a"}], "weight": 1.0}
    learned = sft_dataset([row], fast)[0]
    assert learned["input_ids"] == [1, 0, fast.eos_token_id]
    assert learned["labels"] == [-100, 0, fast.eos_token_id]


CHAT = "{{ order }}{% for m in messages %} {{ m['content'] }}\n{% endfor %}"


def test_the_prompts_that_are_learned_are_those_that_were_sampled_from(model_folder, tmp_path):
    """With a system turn and arguments of the chat template, as `enable_thinking` is one."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template = CHAT
    settings = PromptSettings(system="sum", template_arguments={"order": "cut"})
    row = {
        "prompt": [{"role": "user", "content": "1 2"}],
        "completion": [{"role": "assistant", "content": "3"}],
        "weight": 1.0,
    }
    trainer = WeightedSFTTrainer(
        model=str(model_folder),
        args=SFTConfig(str(tmp_path), **TRAINER, remove_unused_columns=False, disable_tqdm=True),
        processing_class=tokenizer,
        train_dataset=sft_dataset([row], tokenizer, settings),
    )
    learned = trainer.train_dataset[0]
    sampled_from = prompt_ids(tokenizer, "1 2", settings)
    assert sampled_from != prompt_ids(tokenizer, "1 2", PromptSettings(system="sum"))
    assert learned["input_ids"][: len(sampled_from)] == sampled_from


def test_a_hub_that_lets_nobody_in_is_refused_before_a_sample_is_drawn(recipe, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    pushed = {**TRAINER, "push_to_hub": True, "hub_token": "hf_of_the_test"}
    with pytest.raises(
        InvalidValueError, match=r"trainer\.push_to_hub: needs a hub that knows you"
    ):
        run(recipe, trainer=pushed)
    assert not Path(recipe["out"]).exists()


@pytest.mark.parametrize("batch", [4, 2])
def test_a_step_follows_the_gradient_of_the_weighted_likelihood(model_folder, tmp_path, batch):
    texts = [(f"order cut {n}\n#\n", "return x\n" * n) for n in (1, 2, 3, 4)]
    weights = [1.0, 0.5, 0.0, 2.5]
    rows = [
        {"prompt": [{"content": p}], "completion": [{"content": c}], "weight": w}
        for (p, c), w in zip(texts, weights, strict=True)
    ]
    trainer = weighted(rows, batch=batch, folder=tmp_path, model=model_folder)
    before = AutoModelForCausalLM.from_pretrained(model_folder)
    trainer.train()

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    loss = 0.0
    tokens = 0
    for (prompt, completion), weight in zip(texts, weights, strict=True):
        start = len(tokenizer(prompt)["input_ids"])
        ids = torch.tensor([tokenizer(prompt + completion + tokenizer.eos_token)["input_ids"]])
        logs = before(ids).logits[0, :-1].log_softmax(-1)
        logps = logs[range(start - 1, ids.shape[1] - 1), ids[0, start:]]
        loss = loss - weight * logps.sum()
        tokens = tokens + len(logps)
    (loss / tokens).backward()
    after = dict(trainer.model.named_parameters())
    for name, parameter in before.named_parameters():
        expected = parameter - TRAINER["learning_rate"] * parameter.grad
        torch.testing.assert_close(after[name], expected, atol=1e-6, rtol=1e-4)


def test_a_gradient_of_nan_moves_no_weight_of_a_distillation(model_folder, tmp_path):
    row = {"prompt": [{"content": "order"}], "completion": [{"content": "cut"}], "weight": 1.0}
    trainer = weighted([row] * 4, batch=4, folder=tmp_path, model=model_folder)
    before = copied(trainer.model)
    break_gradients(trainer.model, math.nan)
    with pytest.warns(UserWarning, match="the gradient of step 1 is NaN"):
        trainer.train()
    assert are_equal(trainer.model.state_dict(), before)


def test_a_plan_counts_what_a_run_draws_and_writes_nothing(recipe):
    plan = plan_distillation(from_mapping(DistillRecipe, {**recipe, "rounds": 2}, where="recipe"))
    assert not Path(recipe["out"]).exists()
    assert (plan["problems"], plan["samples_to_draw"], plan["k"]) == (24, 2 * 24 * 4, 2)
    out = run(recipe, rounds=2)
    drawn = [len((out / f"samples-{n}" / "samples.jsonl").read_text().splitlines()) for n in (0, 1)]
    assert sum(drawn) == plan["samples_to_draw"]
    assert (plan["epochs"], plan["optimizer_steps_of_a_round"]) == (None, 2)
    of_some = {**recipe, "eval": {**recipe["eval"], "limit": 3}, "out": f"{recipe['out']}-some"}
    of_some["trainer"] = {**TRAINER, "max_steps": -1, "num_train_epochs": 5}
    plan = plan_distillation(from_mapping(DistillRecipe, of_some, where="recipe"))
    assert (plan["problems"], plan["samples_to_draw"]) == (3, 3 * 4)
    assert (plan["epochs"], plan["optimizer_steps_of_a_round"]) == (5, None)
    missing = {**recipe, "run": "nowhere", "out": f"{recipe['out']}-other"}
    del missing["eval"]
    with pytest.raises(MissingFileError, match="run: nowhere"):
        plan_distillation(from_mapping(DistillRecipe, missing, where="recipe"))


def test_rounds_draw_from_the_model_of_the_one_before(recipe):
    out = run(recipe, rounds=2)
    manifest = json.loads((out / "samples-1" / "manifest.json").read_text())
    assert manifest["settings"]["model"]["model"] == str(out / "round-0")
    assert manifest["settings"]["sampling"]["seed"] == 1
    first = AutoModelForCausalLM.from_pretrained(out / "round-0")
    last = AutoModelForCausalLM.from_pretrained(out)
    assert not torch.equal(first.lm_head.weight, last.lm_head.weight)
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert record["recipe"]["rounds"] == 2
    assert record["log_history"]


def test_rounds_go_through_the_problems_and_begin_again_after_the_last(recipe):
    recipe["eval"]["limit"] = 5
    changes = {"rounds": 3, "problems_of_a_round": 2}
    plan = plan_distillation(from_mapping(DistillRecipe, {**recipe, **changes}, where="recipe"))
    assert (plan["problems"], plan["samples_to_draw"]) == (2, 3 * 2 * 4)
    reported = {"samples": [], "scores": [], "steps": []}

    def progress(done, total, part):
        reported[part].append((done, total))

    out = run(recipe, progress=progress, **changes)
    for part in ("samples", "scores"):  # those of all rounds
        assert reported[part] == sorted(reported[part])
        assert reported[part][-1] == (3 * 2 * 4, 3 * 2 * 4)
    assert all(1 <= done <= total for done, total in reported["steps"])
    ids = [problem["id"] for problem in read_rows(Path(recipe["problems"]))]
    drawn_for = [
        {sample["problem_id"] for sample in read_rows(out / f"samples-{number}" / "samples.jsonl")}
        for number in range(3)
    ]
    assert drawn_for == [set(ids[:2]), set(ids[2:4]), {ids[4], ids[0]}]


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_finished_run_is_left_alone_and_another_recipe_refused(recipe):
    out = run(recipe)
    before = (out / TRAIN_RECORD).stat().st_mtime_ns
    assert run(recipe) == out
    assert (out / TRAIN_RECORD).stat().st_mtime_ns == before
    with pytest.raises(InvalidValueError, match="k: 2 in the folder"):
        run(recipe, k=3)


def test_stored_samples_are_distilled(recipe, tmp_path):
    out = run(recipe)
    stored = run(
        {key: value for key, value in recipe.items() if key != "eval"},
        run=str(out / "samples-0"),
        out=str(tmp_path / "stored"),
    )
    assert not (stored / "samples-0").exists()
    assert (stored / "model.safetensors").is_file()


def test_a_distillation_of_a_run_that_has_other_scores_now_is_refused(recipe, tmp_path):
    """Its checkpoints are in the middle of other rows."""
    run(recipe)
    stored = shutil.copytree(Path(recipe["out"]) / "samples-0", tmp_path / "stored")
    changes = {"run": str(stored), "out": str(tmp_path / "of-run")}
    changes["trainer"] = {**TRAINER, "save_strategy": "steps", "save_steps": 1}
    out = run(recipe, **changes)
    forget_the_end(out)
    assert run(recipe, **{**changes, "run": str(stored.rename(tmp_path / "moved"))}) == out
    scores = tmp_path / "moved" / "scores.jsonl"
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:-4]))
    forget_the_end(out)
    with pytest.raises(InvalidValueError, match=r"run: .* with run_sha256 .* in the folder"):
        run(recipe, **{**changes, "run": str(tmp_path / "moved")})


def forget_the_end(out):
    """Make a folder that of a distillation that was killed behind its first checkpoint."""
    record = json.loads((out / TRAIN_RECORD).read_text())
    del record["log_history"]
    (out / TRAIN_RECORD).write_text(json.dumps(record))
    shutil.rmtree(out / "checkpoint-2", ignore_errors=True)


def test_rounds_are_not_extended_since_later_ones_have_drawn_from_the_shorter_ones(recipe):
    trainer = {**TRAINER, "max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    out = run(recipe, trainer=trainer, rounds=2)
    before = (out / "round-0" / "model.safetensors").read_bytes()
    with pytest.raises(InvalidValueError, match="max_steps: 1 in the folder, 2 now"):
        run(recipe, trainer={**trainer, "max_steps": 2}, rounds=2)
    assert (out / "round-0" / "model.safetensors").read_bytes() == before


def test_samples_of_a_run_that_were_drawn_after_another_prompt_are_told_of(recipe, tmp_path):
    sampled = str(run(recipe) / "samples-0")
    settings = {**recipe, "run": sampled, "out": str(tmp_path / "stored")}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        plan_distillation(from_mapping(DistillRecipe, settings, where="recipe"))
    settings["eval"] = {**recipe["eval"], "prompt": {"system": "Be brief."}}
    message = r"after another prompt .* prompt.system: None in the folder, 'Be brief.' now"
    with pytest.warns(UserWarning, match=message):
        plan_distillation(from_mapping(DistillRecipe, settings, where="recipe"))


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"k": 0}, InvalidValueError, "k: must be an integer of 1 or more, got 0"),
        ({"k": 9}, InvalidValueError, "k: must be at most 4, got 9"),
        ({"run": "none", "rounds": 2}, InvalidValueError, "rounds: must be 1 with a run"),
        ({"problems_of_a_round": 0}, InvalidValueError, "a_round: must be an integer of 1"),
        (
            {"problems_of_a_round": 25},
            InvalidValueError,
            "problems_of_a_round: must be at most the 24 problems that there are, got 25",
        ),
        (
            {"run": "none", "problems_of_a_round": 2},
            InvalidValueError,
            "problems_of_a_round: must be left out with a run",
        ),
        ({"run": "none"}, MissingFileError, "run: none: holds no scores.jsonl"),
        ({"model": "./no"}, MissingFileError, "model"),
        ({"eval": {"out": "x"}}, InvalidValueError, "eval.out: is set by the run itself"),
        ({"trainer": {"packing": True}}, InvalidValueError, "trainer.packing: is set by the run"),
        ({"trainer": {"loss_type": "dft"}}, InvalidValueError, "loss_type: is set by the run"),
        ({"trainer": {"padding_free": True}}, InvalidValueError, "padding_free: is set by the run"),
        (
            {"trainer": {"seed": 2**40, "use_cpu": True}},
            InvalidValueError,
            "seed: must be a whole number from 0",
        ),
        ({"trainer": {"learning_rat": 1}}, InvalidValueError, "learning_rate"),
        ({"peft": {"target_modules": ["no"]}}, InvalidValueError, "peft: Target modules {'no'}"),
        (
            {"trainer": {"lr_scheduler_type": "cosine_with_min_lr", "use_cpu": True}},
            InvalidValueError,
            "lr_scheduler_kwargs: .*min_lr_rate",
        ),
        (
            {"trainer": {**TRAINER, "eos_token": "<none>"}},
            InvalidValueError,
            "trainer.eos_token: must be a token of the model's tokenizer, got '<none>'",
        ),
        (
            {"trainer": {**TRAINER, "chat_template_path": "other.jinja"}},
            InvalidValueError,
            "chat_template_path: must be None in a distillation",
        ),
        (
            {"trainer": {**TRAINER, "completion_only_loss": False}},
            InvalidValueError,
            "completion_only_loss: must be None or True in a distillation",
        ),
        (
            {"trainer": {**TRAINER, "model_init_kwargs": {"attn_implementation": "eagre"}}},
            InvalidValueError,
            "model_init_kwargs: .* is not supported",
        ),
        (
            {"trainer": {"save_steps": 0, "save_strategy": "steps", "use_cpu": True}},
            InvalidValueError,
            "save_steps: must be above 0",
        ),
    ],
)
def test_what_is_wrong_is_refused_before_any_work(recipe, changes, error, message):
    with pytest.raises(error, match=message):
        run(recipe, **changes)
    assert not list(Path(recipe["out"]).glob("samples-*"))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"reward": "none.py:f"}, MissingFileError, "'none.py' does not exist"),
        ({"sampling": {"samples": 4, "max_new_tokens": 900}}, InvalidValueError, "900 exceed"),
    ],
)
def test_a_plan_refuses_what_the_drawing_would_refuse(recipe, changes, error, message):
    settings = {**recipe, "eval": {**recipe["eval"], **changes}}
    with pytest.raises(error, match=message):
        plan_distillation(from_mapping(DistillRecipe, settings, where="recipe"))
    assert not Path(recipe["out"]).exists()


def test_a_plan_refuses_samples_of_which_nothing_can_be_learned(recipe, own_rewards, tmp_path):
    recipe["eval"]["reward"] = f"{own_rewards}:same"
    with pytest.raises(DataError, match="nothing to distil"):
        run(recipe)
    stored = shutil.copytree(Path(recipe["out"]) / "samples-0", tmp_path / "stored")
    settings = {**recipe, "run": str(stored), "out": str(tmp_path / "other")}
    with pytest.raises(DataError, match="nothing to distil"):
        plan_distillation(from_mapping(DistillRecipe, settings, where="recipe"))


def test_a_launch_in_which_each_process_would_train_alone_is_refused(recipe, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidValueError, match="use_cpu: must be True for 2 processes without"):
        run(recipe, run="samples", trainer={**TRAINER, "use_cpu": False})
    assert not list(Path(recipe["out"]).glob("samples-*"))


def test_several_processes_do_not_draw_into_one_folder(recipe, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidValueError, match="run: must be a folder that `maxatk eval` wrote"):
        run(recipe)
    assert not list(Path(recipe["out"]).glob("samples-*"))


def test_samples_of_any_length_are_whole_unless_a_length_is_given(recipe, tmp_path):
    def longest(**trainer):
        settings = {**recipe, "trainer": {**TRAINER, **trainer}}
        return config_of(from_mapping(DistillRecipe, settings, where="recipe"), tmp_path).max_length

    assert (longest(), longest(max_length=300)) == (None, 300)


def test_its_settings_are_pickled_without_the_token_of_the_hub(recipe, tmp_path):
    pushed = {**recipe, "trainer": {**TRAINER, "hub_token": "hf_abc"}}
    settings = config_of(from_mapping(DistillRecipe, pushed, where="recipe"), tmp_path)
    assert settings.hub_token == "hf_abc"
    assert b"hf_abc" not in pickle.dumps(settings)


def test_nothing_to_distil_is_said(recipe, own_rewards):
    level = {**recipe["eval"], "reward": f"{own_rewards}:same"}
    with pytest.raises(DataError, match="nothing to distil"):
        run(recipe, eval=level)


def test_an_adapter_is_trained_and_merged(recipe):
    out = run(recipe, peft={"r": 2, "target_modules": "all-linear"})
    assert (out / "adapter" / "adapter_model.safetensors").is_file()
    AutoModelForCausalLM.from_pretrained(out)
