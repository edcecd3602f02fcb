"""Training runs from a recipe, with rewards of programs that are really executed."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.folders import TRAIN_RECORD
from maxatk.jsonl import write_jsonl
from maxatk.models import PromptSettings, load_tokenizer, prompt_difference, prompt_ids
from maxatk.objectives import Method, OrderWeights, method_of
from maxatk.records import TestCase
from maxatk.settings import HIDDEN, from_mapping
from maxatk.train import MaxAtKTrainer, TrainRecipe, train
from maxatk.train.run import to_dataset
from maxatk.training.summary import first_and_last
from maxatk.verifier import CodeReward, Verifier
from tiny import save_tiny_model

from .conftest import TRAINER


@pytest.fixture
def recipe(toy_recipe):
    """Programs are really executed."""
    return {**toy_recipe(), "reward": "continuous"}


def run(recipe, progress=None):
    return train(from_mapping(TrainRecipe, recipe, where="recipe"), progress=progress)


def test_a_recipe_gives_a_model_folder_with_its_record(recipe):
    steps = []
    recipe["trainer"]["hub_token"] = "hf_abc"
    out = run(recipe, lambda done, total: steps.append((done, total)))
    assert steps == [(1, 2), (2, 2)]
    AutoModelForCausalLM.from_pretrained(out)
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert record["recipe"]["trainer"] == {**TRAINER, "hub_token": HIDDEN}
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(b"hf_abc" in content for content in written)
    assert record["isolation"]["seccomp"] is True
    assert "rewards/continuous/mean" in record["log_history"][0]


def test_a_recipe_of_python_may_hold_a_method_which_its_record_has_as_a_mapping(toy_recipe):
    weights = OrderWeights.cvar(0.5, of=2)
    method = Method(credit=weights, baseline="replace_one", source="me")
    recipe = toy_recipe(method=method, max_steps=1)
    del recipe["verifier"]
    out = train(TrainRecipe(**recipe))
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert method_of(record["recipe"]["trainer"]["method"]) == method
    assert train(from_mapping(TrainRecipe, recipe, where="recipe")) == out
    refused = toy_recipe(method=Method(credit=max, baseline="leave_one_out"))
    with pytest.raises(InvalidValueError, match="method: the function 'max' is its credit"):
        from_mapping(TrainRecipe, refused, where="recipe")


def test_fewer_problems_than_a_rollout_batch_needs_are_refused_before_the_weights(
    recipe, broken_weights
):
    recipe["model"] = str(broken_weights)
    few = Path(recipe["problems"]).read_text().splitlines(keepends=True)[:1]
    Path(recipe["problems"]).write_text("".join(few))
    with pytest.raises(InvalidValueError, match="problems: has 1 prompt, fewer than the 2 of one"):
        run(recipe)
    assert not Path(recipe["out"]).exists()


def test_a_hub_that_lets_nobody_in_is_refused_before_the_weights(
    recipe, broken_weights, monkeypatch
):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    recipe["model"] = str(broken_weights)
    recipe["trainer"] |= {"push_to_hub": True, "hub_token": "hf_of_the_test"}
    with pytest.raises(
        InvalidValueError, match=r"trainer\.push_to_hub: needs a hub that knows you"
    ):
        run(recipe)
    assert not Path(recipe["out"]).exists()


def test_a_context_that_holds_no_completion_is_refused_before_the_weights(recipe, broken_weights):
    recipe["model"] = str(broken_weights)
    recipe["trainer"]["max_completion_length"] = 120
    with pytest.raises(InvalidValueError, match=r"max_completion_length=120 exceed .* 128"):
        run(recipe)
    assert not Path(recipe["out"]).exists()


def test_a_finished_run_is_left_alone_and_another_recipe_refused(recipe):
    out = run(recipe)
    before = (out / TRAIN_RECORD).stat().st_mtime_ns
    assert run(recipe) == out
    assert (out / TRAIN_RECORD).stat().st_mtime_ns == before
    recipe["reward"] = "binary"
    with pytest.raises(InvalidValueError, match="reward: 'continuous' in the folder"):
        run(recipe)


def test_a_run_of_other_weights_in_a_folder_of_the_same_name_is_not_left_alone(recipe, tmp_path):
    """The base model was trained anew in its folder: what was made of the old one is no result."""
    base = shutil.copytree(recipe["model"], tmp_path / "base")
    recipe["model"] = str(base)
    run(recipe)
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 1
    model.save_pretrained(base)
    message = r"model: '.*base with weights (\w+)' in the folder, '.*base with weights (?!\1)"
    with pytest.raises(InvalidValueError, match=message):
        run(recipe)


def test_a_run_of_other_problems_in_a_file_of_the_same_name_is_not_left_alone(recipe, tmp_path):
    problems = Path(shutil.copy(recipe["problems"], tmp_path / "mine.jsonl"))
    recipe["problems"] = str(problems)
    out = run(recipe)
    moved = Path(shutil.move(problems, tmp_path / "moved.jsonl"))
    assert run({**recipe, "problems": str(moved)}) == out
    first, *other_lines = moved.read_text().splitlines(keepends=True)
    problems.write_text("".join([*other_lines, first]))
    message = (
        r"problems: '.*mine.jsonl with problems_sha256 (\w+)' in the folder, '.*_sha256 (?!\1)"
    )
    with pytest.raises(InvalidValueError, match=message):
        run(recipe)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"model": ""}, MissingFileError, "model: '' is neither a folder nor a name"),
        ({"model": "no/such-model"}, MissingFileError, "model: 'no/such-model' is no folder here"),
        ({"model": "no/such/model"}, MissingFileError, "there is no folder 'no/such/model'"),
        ({"model": "tests/model"}, MissingFileError, "there is no folder 'tests/model'"),
        ({"problems": "none.jsonl"}, MissingFileError, "none.jsonl: no such file"),
        ({"reward": "binry"}, InvalidValueError, "reward: .*did you mean 'binary'"),
        ({"trainr": {}}, InvalidValueError, "unknown key 'trainr'; did you mean 'trainer'"),
        ({"verifier": {"workers": 0}}, InvalidValueError, "workers: must be an integer of 1"),
        (
            {"trainer": {"learning_rat": 1}},
            InvalidValueError,
            "trainer: unknown key 'learning_rat'; did you mean 'learning_rate'",
        ),
        ({"trainer": {"k": "two"}}, InvalidValueError, "trainer.k: must be int, got 'two'"),
        ({"trainer": {"k": 9}}, InvalidValueError, "k: .*num_generations"),
        (
            {"trainer": {"eval_strategy": "steps"}},
            InvalidValueError,
            "trainer.eval_strategy: must be 'no' in a recipe, .* maxatk eval .*got 'steps'",
        ),
        (
            {"trainer": {"resume_from_checkpoint": "runs/old/checkpoint-100"}},
            InvalidValueError,
            "trainer.resume_from_checkpoint: must be None in a recipe, which goes on from the new",
        ),
        ({"peft": {"target_modules": ["no"]}}, InvalidValueError, "peft: Target modules {'no'}"),
        (
            {"trainer": {"save_strategy": "best", "metric_for_best_model": "reward"}},
            InvalidValueError,
            "trainer.metric_for_best_model: must be None in a recipe, which has no evaluation set",
        ),
        (
            {"trainer": {"reward_weights": [1.0, 2.0]}},
            InvalidValueError,
            "trainer.reward_weights: must be None in a recipe, whose `reward` has the weights",
        ),
        ({"trainer": {"output_dir": "x"}}, InvalidValueError, "output_dir: is set by the run"),
        (
            {"trainer": {"lr_scheduler_type": "slope"}},
            InvalidValueError,
            "^trainer: slope is not a valid",
        ),
        (
            {"trainer": {"steps_per_generation": 2, "generation_batch_size": 8}},
            InvalidValueError,
            "^trainer: ",
        ),
    ],
)
def test_bad_recipes_are_refused_before_anything_is_written(
    recipe, tmp_path, monkeypatch, changes, error, message
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(error, match=message):
        run({**recipe, **changes})
    assert not (tmp_path / "out").exists()


def test_an_unfinished_run_goes_on_from_its_checkpoint_and_only_with_its_recipe(recipe):
    recipe["trainer"] |= {"save_strategy": "steps", "save_steps": 1}
    out = run(recipe)
    record = json.loads((out / TRAIN_RECORD).read_text())
    unfinished = json.dumps({"recipe": record["recipe"]})  # as if killed at the end
    (out / TRAIN_RECORD).write_text(unfinished)
    steps = []
    shutil.rmtree(out / "checkpoint-2")
    run(recipe, lambda done, total: steps.append((done, total)))
    assert steps == [(2, 2)]
    resumed = json.loads((out / TRAIN_RECORD).read_text())
    assert resumed["resumed_from"] == "checkpoint-1"
    assert "train_loss" in record["log_history"][-1]
    assert not any("train_loss" in row for row in resumed["log_history"])  # of one step alone
    (out / TRAIN_RECORD).write_text(unfinished)
    with pytest.raises(InvalidValueError, match=r"trainer.k: 2 in the folder, 3 now"):
        run({**recipe, "trainer": {**recipe["trainer"], "k": 3}})


def test_a_training_goes_on_elsewhere_and_with_another_log(recipe):
    """Neither where programs run nor what is logged and kept decides the weights."""
    recipe["trainer"] |= {"save_strategy": "steps", "save_steps": 1}
    out = run(recipe)
    record = json.loads((out / TRAIN_RECORD).read_text())
    weights = (out / "model.safetensors").read_bytes()
    (out / TRAIN_RECORD).write_text(json.dumps({"recipe": record["recipe"]}))  # killed at the end
    shutil.rmtree(out / "checkpoint-2")
    recipe["verifier"] = {**recipe.get("verifier", {}), "workers": 2}
    recipe["trainer"] |= {"logging_steps": 2, "save_steps": 2, "save_total_limit": 1}
    run(recipe)
    resumed = json.loads((out / TRAIN_RECORD).read_text())
    assert resumed["resumed_from"] == "checkpoint-1"
    assert resumed["recipe"]["trainer"]["logging_steps"] == 2
    assert (out / "model.safetensors").read_bytes() == weights
    recipe["verifier"] = {**recipe["verifier"], "time_limit": 1.5}
    with pytest.raises(InvalidValueError, match=r"verifier.time_limit: \S+ in the folder, 1.5 now"):
        run(recipe)


def test_a_training_that_goes_on_with_another_reward_of_the_same_name_says_so(
    toy_recipe, own_rewards, recwarn
):
    recipe = toy_recipe(save_strategy="steps", save_steps=1)
    out = run(recipe)
    digest = json.loads((out / TRAIN_RECORD).read_text())["files"][f"{own_rewards}:letters"]
    longer = toy_recipe(save_strategy="steps", save_steps=1, max_steps=3)
    run(longer)
    assert not [warning for warning in recwarn if "another content" in str(warning.message)]
    own_rewards.write_text(own_rewards.read_text().replace("/ 99", "/ 9"))
    longer["trainer"]["max_steps"] = 4
    with pytest.warns(
        UserWarning, match=r"another content of .*own\.py:letters than it had before"
    ):
        run(longer)
    now = json.loads((out / TRAIN_RECORD).read_text())["files"][f"{own_rewards}:letters"]
    assert now != digest


def test_a_training_that_goes_on_in_another_number_of_processes_says_so(toy_recipe):
    changes = {"save_strategy": "steps", "save_steps": 1}
    out = run(toy_recipe(**changes))
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert record["processes"] == 1
    (out / TRAIN_RECORD).write_text(json.dumps({**record, "processes": 2}))
    with pytest.warns(UserWarning, match="goes on in 1 process and not in 2 as before"):
        run(toy_recipe(**changes, max_steps=3))


def test_a_training_outlives_a_log_without_whole_groups(recipe, tmp_path):
    """No group has all of its rewards, so that TRL logs None for max@4, and NaN once for a norm."""
    reward_file = tmp_path / "gaps.py"
    reward_file.write_text(
        "def gaps(completions, **_):\n"
        "    return [None if i % 4 == 0 else i % 2 for i in range(len(completions))]\n"
    )
    recipe["reward"] = f"{reward_file}:gaps"
    recipe["trainer"] |= {"save_strategy": "steps", "save_steps": 1}
    settings = from_mapping(TrainRecipe, recipe, where="recipe")
    lines = []
    out = train(settings, write_line=lines.append)
    assert ["max@4 unknown" in line for line in lines] == [True, True]
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert [row["max@4"] for row in record["log_history"][:2]] == [None, None]
    del record["log_history"]  # as if killed at the end
    (out / TRAIN_RECORD).write_text(json.dumps(record))
    shutil.rmtree(out / "checkpoint-2")
    state = out / "checkpoint-1" / "trainer_state.json"
    state.write_text(state.read_text().replace('"max@4": null', '"max@4": NaN'))
    train(settings, write_line=lines.append)
    assert len(lines) == 3
    resumed = json.loads((out / TRAIN_RECORD).read_text())
    assert [row["max@4"] for row in resumed["log_history"][:2]] == [None, None]
    moved = first_and_last(resumed["log_history"])["max@1"]
    assert moved == pytest.approx((2 / 3, 2 / 3), abs=1e-6)
    assert "25.0% of the samples have no reward" in (out / "README.md").read_text()


def test_a_folder_where_nothing_was_kept_takes_another_recipe(recipe):
    out = run(recipe)
    record = json.loads((out / TRAIN_RECORD).read_text())
    # As if interrupted before any checkpoint; the model of a finished run would have its log.
    (out / TRAIN_RECORD).write_text(json.dumps({"recipe": record["recipe"]}))
    shutil.rmtree(out / "checkpoint-2")
    steps = []
    other = {**recipe, "trainer": {**recipe["trainer"], "k": 3}}
    run(other, lambda done, total: steps.append((done, total)))
    assert steps == [(1, 2), (2, 2)]
    assert json.loads((out / TRAIN_RECORD).read_text())["recipe"]["trainer"]["k"] == 3


def test_a_model_with_a_chat_template_is_asked_in_turns(recipe, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(recipe["model"])
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}a={% endif %}"
    )
    model = tmp_path / "chat-model"
    shutil.copytree(recipe["model"], model)
    tokenizer.save_pretrained(model)
    out = run({**recipe, "model": str(model)})
    assert "log_history" in json.loads((out / TRAIN_RECORD).read_text())


def test_training_reads_the_prompts_that_evaluation_reads(
    recipe, tmp_path, mini_problems, monkeypatch
):
    trained_prompts = set()

    class Spy(MaxAtKTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            for ids, mask in zip(batch["prompt_ids"], batch["prompt_mask"], strict=True):
                trained_prompts.add(tuple(ids[mask.bool()].tolist()))
            return batch

    monkeypatch.setattr("maxatk.train.run.MaxAtKTrainer", Spy)
    template = tmp_path / "template.jinja"
    template.write_text(
        "{% for m in messages %}{{ m['content'] }}\n{% endfor %}{% if loud %}# loud\n{% endif %}"
    )
    prompt = {
        "template": str(template),
        "system": "# read and print",
        "template_arguments": {"loud": True},
    }
    recipe |= {"prompt": prompt, "trainer": {**TRAINER, "max_steps": 1}}
    out = run(recipe)
    settings = PromptSettings(**prompt)
    tokenizer = load_tokenizer(recipe["model"], prompt=settings)
    read = {tuple(prompt_ids(tokenizer, p.problem.prompt, settings)) for p in mini_problems}
    assert trained_prompts
    assert trained_prompts <= read
    assert json.loads((out / TRAIN_RECORD).read_text())["recipe"]["prompt"] == prompt
    same = PromptSettings(system="# read and print", template_arguments={"loud": True})
    assert prompt_difference(prompt, same) is None
    assert prompt_difference(prompt, PromptSettings()).startswith("prompt.system: ")
    recipe["trainer"]["chat_template_kwargs"] = {"loud": False}
    with pytest.raises(InvalidValueError, match=r"chat_template_kwargs: is prompt\.template_arg"):
        run({**recipe, "out": str(tmp_path / "other")})


def test_training_reads_a_folders_own_tokenizer_as_evaluation_does(recipe, tmp_path):
    model = save_tiny_model(tmp_path / "own-tokenizer")
    out = run({**recipe, "model": str(model)})
    text = "print(1)\n#print(3)"
    ids = load_tokenizer(str(model))(text)["input_ids"]
    assert len(ids) == 4  # Qwen2Tokenizer, which AutoTokenizer would take, knows none of these
    assert load_tokenizer(str(out))(text)["input_ids"] == ids


def test_a_folder_that_holds_no_model_is_refused(recipe, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match=r"holds no config.json"):
        run({**recipe, "model": str(tmp_path / "empty")})


def test_the_dataset_carries_what_the_reward_function_needs(mini_problems):
    data = to_dataset([p.problem for p in mini_problems], chat=False)
    rows = [data[i] for i in range(3)]
    with Verifier(workers=1) as verifier:
        rewards = CodeReward(verifier)(
            prompts=[row["prompt"] for row in rows],
            completions=[p.pipeline.source for p in mini_problems[:3]],
            tests=[row["tests"] for row in rows],
            compare=[row["compare"] for row in rows],
        )
    assert rewards == [1.0, 1.0, 1.0]


def test_a_part_of_the_reward_may_select(recipe, mini_problems):
    shown = (dataclasses.replace(p.problem, visible_tests=p.problem.tests) for p in mini_problems)
    write_jsonl(Path(recipe["problems"]), (problem.to_json() for problem in shown))
    recipe["reward"] = ["continuous", "visible_tests"]
    recipe["trainer"].update(method="bon_loo1", selection="visible_tests", max_steps=1)
    record = json.loads((run(recipe) / TRAIN_RECORD).read_text())
    logged = record["log_history"][0]
    assert logged["reward"] == logged["rewards/continuous/mean"]
    assert logged["rewards/visible_tests/mean"] == pytest.approx(logged["reward"])


def test_what_a_reward_lacks_is_refused_before_the_model_is_loaded(recipe, tmp_path):
    rows = [json.loads(line) for line in Path(recipe["problems"]).read_text().splitlines()]
    write_jsonl(Path(recipe["problems"]), ({"id": r["id"], "prompt": r["prompt"]} for r in rows))
    with pytest.raises(InvalidValueError, match="has no tests, which the reward of a program"):
        run(recipe)
    (tmp_path / "short.py").write_text("def reward(prompts, completions): ...")
    with pytest.raises(InvalidValueError, match="cannot be called as function"):
        run({**recipe, "reward": f"{tmp_path}/short.py:reward"})
    mixed = ({"id": r["id"], "prompt": r["prompt"], "meta": {"level": m}}
             for r, m in zip(rows, [{"a": [1]}, 1], strict=False))  # fmt: skip
    write_jsonl(Path(recipe["problems"]), mixed)
    with pytest.raises(DataError, match="meta: a field must have one type in all problems"):
        run({**recipe, "reward": f"{tmp_path}/own.py:letters"})
    assert not (tmp_path / "out").exists()


def test_a_function_of_the_user_gets_the_columns_of_problems_without_tests(recipe, tmp_path):
    (tmp_path / "columns.py").write_text(
        "def reward(prompts, completions, answer, level, **_):\n"
        "    assert set(answer) <= {'0', '1'} and set(level) <= {0, 1, 2}\n"
        "    return [len(set(text)) / 10 for text in completions]\n"
    )
    rows = [json.loads(line) for line in Path(recipe["problems"]).read_text().splitlines()]
    plain = (
        {"id": r["id"], "prompt": r["prompt"], "answer": str(i % 2), "meta": {"level": i % 3}}
        for i, r in enumerate(rows)
    )
    write_jsonl(Path(recipe["problems"]), plain)
    recipe["reward"] = f"{tmp_path}/columns.py:reward"
    record = json.loads((run(recipe) / TRAIN_RECORD).read_text())
    assert record["log_history"][0]["reward"] > 0
    assert record["recipe"]["reward"] == recipe["reward"]
    assert len(record["reward"][0]["sha256"]) == 64


def test_a_training_may_be_given_an_open_verifier(recipe):
    with Verifier(workers=1) as verifier:
        out = train(from_mapping(TrainRecipe, recipe, where="recipe"), verifier=verifier)
        assert verifier.verify("print(1)", [TestCase(input="", output="1")]).reward == 1.0
    record = json.loads((out / TRAIN_RECORD).read_text())
    assert record["isolation"] == verifier.isolation


def test_a_reward_that_fails_ends_a_training_or_is_counted_in_its_log(recipe, tmp_path):
    (tmp_path / "fails.py").write_text(
        "def reward(completions, **_):\n    return [1 / (len(text) % 3) for text in completions]\n"
    )
    fails = f"{tmp_path}/fails.py:reward"
    with pytest.raises(InvalidValueError, match=r"raised ZeroDivisionError(?s:.*)line 2, in"):
        run({**recipe, "reward": fails})
    shares = {"zero": "frac_reward_failed", "drop": "frac_without_reward"}
    for policy, logged in shares.items():
        reward = {"reward": fails, "on_error": policy}
        out = tmp_path / policy
        run({**recipe, "reward": reward, "out": str(out)})
        rows = json.loads((out / TRAIN_RECORD).read_text())["log_history"]
        assert 0 < rows[0][logged] < 1
        assert re.search(r"- verifier fails: .*% of the samples", (out / "README.md").read_text())
