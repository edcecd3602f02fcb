"""What a training logs, says while it runs and at its end, and writes into the model's card."""

import json
import re

import numpy as np
import pytest
import yaml
from datasets import IterableDataset

from maxatk.cli.main import main
from maxatk.cli.train import what_is_kept
from maxatk.errors import DataError, InvalidValueError
from maxatk.exchange import read_log
from maxatk.folders import TRAIN_RECORD
from maxatk.records import TestResult, Verdict
from maxatk.train import MaxAtKTrainer
from maxatk.training.summary import first_and_last, log_line
from oracles import subsets

from .conftest import GROUP, PROMPTS, config, text_reward


def row(**values):
    names = {"max1": "max@1", "max4": "max@4", "max8": "max@8", "k": "objective/k"}
    return {"reward": 0.25, **{names.get(n, n): value for n, value in values.items()}}


def test_a_line_has_the_metrics_of_the_trained_k_and_of_the_whole_group():
    logged = row(max1=0.25, **{"max@2": 0.3}, max4=0.5, max8=0.75, k=4.0, kl=0.0125)
    logged["completions/clipped_ratio"] = 0.034
    assert log_line(logged) == (
        "reward 0.250, max@1 0.250, max@4 0.500, max@8 0.750, KL 0.0125, 3.4% cut off by length"
    )
    silent = row(max1=0.25, k=1.0, frac_groups_without_signal=0.75)
    assert log_line(silent) == "reward 0.250, max@1 0.250, 75% of the groups without signal"


def test_what_is_not_known_of_a_window_is_said_to_be_unknown():
    for nothing in ({"max4": None}, {"max4": float("nan")}, {"max4": 10**400}):
        assert log_line(row(max1=0.25, k=4.0, **nothing)) == (
            "reward 0.250, max@1 0.250, max@4 unknown"
        )
    assert log_line({"reward": None, "kl": None, "objective/k": None}) == "reward unknown"
    assert log_line({"completions/clipped_ratio": float("inf")}) == "reward unknown"
    rows = [row(max1=None, max8=0.5), row(max1=0.25, max8=None), {"reward": None}]
    assert first_and_last(rows) == {}
    assert first_and_last(rows[:2]) == {}


def test_the_first_tenth_of_the_log_is_compared_with_the_last():
    rows = [row(max1=float(i), max8=10.0 * i, k=8.0) for i in range(20)]
    assert first_and_last([*rows, {"train_loss": 0.0}]) == {
        "max@1": (0.5, 18.5),
        "max@8": (5.0, 185.0),
    }
    assert first_and_last(rows[:1]) == {}
    unknown = [row(max1=0.5, max8=float("nan"), k=8.0), *rows[:2]]
    assert first_and_last(unknown) == {"max@1": (0.5, 1.0)}


@pytest.fixture
def recipe(tmp_path, toy_recipe):
    """The file of a recipe."""
    settings = toy_recipe(max_steps=10, beta=0.1, save_strategy="no")
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(settings))
    return str(tmp_path / "recipe.yaml")


def test_a_training_prints_a_line_every_logging_step_and_what_moved(recipe, tmp_path, capsys):
    assert main(["train", recipe]) == 0
    printed = capsys.readouterr()
    numbers = r"reward 0\.\d+, max@1 0\.\d+, max@2 0\.\d+, max@4 0\.\d+, KL -?0\.\d+, "
    line = rf"^step (\d+) of 10: {numbers}[\d.]+% cut off by length, [\d.]+ s$"
    assert re.findall(line, printed.err, re.M) == [str(step) for step in range(1, 11)]
    history = json.loads((tmp_path / "out" / TRAIN_RECORD).read_text())["log_history"]
    first = history[0]["max@2"]
    last = history[9]["max@2"]
    assert f"max@2 {first:.3f} to {last:.3f}, max@4" in printed.out
    assert "(first and last tenth of the training log, on different prompts)" in printed.out
    assert "without signal" not in printed.err
    assert not re.search("Loading weights|Writing model shards|FutureWarning", printed.err)
    # Finished: nothing is trained, and the same is said of the log, now as JSON.
    assert main(["train", recipe, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["training"]
    assert [r["metric"] for r in rows] == ["max@1", "max@2", "max@4"]
    assert (rows[1]["first"], rows[1]["last"]) == (first, last)


def test_an_interrupt_says_what_is_kept(recipe, tmp_path, capsys):
    (tmp_path / "own.py").write_text(
        "def reward(completions, trainer_state=None, **_):\n"
        "    if trainer_state.global_step == 3:\n        raise KeyboardInterrupt\n"
        "    return [float(len(text)) for text in completions]\n"
    )
    steps = ("trainer.max_steps=5", "trainer.save_steps=1", "trainer.save_strategy=steps")
    assert main(["train", str(recipe), *steps, f"reward={tmp_path}/own.py:reward"]) == 130
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.endswith("interrupted; the same command resumes from checkpoint-3")
    assert what_is_kept(tmp_path / "empty").startswith("nothing is kept, since no checkpoint was")


@pytest.mark.parametrize("rows", [2, 8], ids=["extra forward", "whole groups"])
def test_groups_ratios_seconds_and_outcomes_are_logged(make_trainer, rows):
    class Verification:
        __name__ = "verification"

        def __call__(self, completions, **_):
            tests = map(TestResult, (["time_limit"] + 2 * ["infra_error"] + 5 * ["passed"]))
            self.verdicts = [Verdict(tuple(tests))]
            return text_reward(completions)

    trainer = make_trainer(
        Verification(),
        method="bon_off_policy_exact",
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=8 // rows,
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    first, second = [row for row in trainer.state.log_history if "loss" in row]
    rewards = trainer.generations[0][2].numpy().reshape(-1, GROUP)
    for k in (1, 2, GROUP):
        expected = np.mean([subsets.max_at_k(list(group), k) for group in rewards])
        assert first[f"max@{k}"] == pytest.approx(expected, abs=1e-6)
    texts = list(trainer._logs["completion"])
    groups = [texts[i : i + GROUP] for i in range(0, len(texts), GROUP)]
    distinct = np.mean([len(set(group)) / GROUP for group in groups])
    assert first["completions/distinct"] == pytest.approx(distinct)
    assert 0 <= first["frac_groups_without_signal"] < 1
    assert first["verifier/time_limit"] == pytest.approx(1 / 8)
    assert first["verifier/infra_error"] == pytest.approx(2 / 8)
    assert "ratio/mean_abs_delta" not in first
    assert 0 < second["ratio/mean_abs_delta"] <= second["ratio/max_abs_delta"]
    assert 0 < second["ratio/effective_samples"] < 1
    assert 0 <= second["ratio/clamped"] <= 1
    assert ("seconds/refresh" in second) == (rows == 2)
    assert first["seconds/rollout"] > 0
    assert first["seconds/verification"] > 0
    assert second["seconds/update"] > 0
    for row in (first, second):  # which is all of what TRL measures of the step
        parts = ("rollout", "verification", "refresh", "update")
        assert sum(row.get(f"seconds/{part}", 0.0) for part in parts) >= row["step_time"]


def test_distinct_completions_are_those_of_the_evaluated_batch(model_folder, prompts, tmp_path):
    """An evaluation batch larger than a rollout batch, of which TRL's log keeps the last texts."""
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, max_steps=1, per_device_eval_batch_size=32, max_completion_length=20),
        train_dataset=prompts,
        eval_dataset=prompts.select(range(8)),
    )
    evaluated = []
    inner = trainer._calculate_rewards

    def noting(inputs, prompt_texts, completions, ids):
        evaluated[:] = completions
        return inner(inputs, prompt_texts, completions, ids)

    trainer._calculate_rewards = noting
    metrics = trainer.evaluate()
    groups = np.array(evaluated).reshape(-1, 4)
    assert len(groups) == 8
    expected = np.mean([len(set(group)) / 4 for group in groups])
    assert metrics["eval_completions/distinct"] == pytest.approx(expected)


def always(completions, **_):
    return [0.5] * len(completions)


def test_a_run_without_any_signal_warns_and_its_card_says_so(make_trainer, tmp_path):
    trainer = make_trainer(always, cls=MaxAtKTrainer, max_steps=2)
    with pytest.warns(UserWarning, match="all advantages were 0"):
        trainer.train()
    trainer.create_model_card(model_name="mine")
    assert "- reward never varies: every reward was 0.5 " in (tmp_path / "README.md").read_text()


@pytest.mark.filterwarnings("error:.*all advantages were 0")
@pytest.mark.parametrize(
    ("method", "objective"),
    [
        ({"method": "grpo"}, "the expected mean reward."),
        ({"method": "bon_max_second"}, "the expected reward of the best of all 4 samples."),
        ({"k": 4, "k_schedule": "cosine"}, "the expected max@k for k = 4 to 1 (cosine)."),
    ],
)
def test_the_card_names_base_method_and_k(make_trainer, model_folder, tmp_path, method, objective):
    trainer = make_trainer(cls=MaxAtKTrainer, max_steps=2, **method)
    trainer.train()
    trainer.create_model_card(model_name="mine")
    trainer.create_model_card(model_name="mine")
    card = (tmp_path / "README.md").read_text()
    assert card.count("Trained for best-of-N") == 1
    assert "trained with maxatk" in card
    assert f"fine-tuned version of `{model_folder}`" in card
    assert "Cite GRPO" not in card
    assert f'model="{tmp_path}"' in card
    assert "reward never varies" not in card
    assert objective in card
    assert f"| base model | `{model_folder}` |" in card
    assert f"| method | `{method.get('method', 'bon_loo1')}` (" in card
    assert ("max@k" in card) == ("k" in method)
    assert "| `learning_rate` | 0.03 |" in card
    assert "| optimizer steps | 2 |" in card
    assert "| problems | 24 |" in card
    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert f"| max@4 | {rows[0]['max@4']:.3f} | {rows[-1]['max@4']:.3f} |" in card
    assert "generator(question, max_new_tokens" in card  # the model has no chat template


def test_a_stream_that_ends_before_one_rollout_batch_is_refused(model_folder, tmp_path):
    trainer = MaxAtKTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, per_device_train_batch_size=32, max_steps=2),
        train_dataset=IterableDataset.from_generator(lambda: ({"prompt": p} for p in PROMPTS[:3])),
    )
    with pytest.raises(InvalidValueError, match=r"train_dataset: ended before .* of 8 prompts"):
        trainer.train()


def length_reward(completions, **_):
    return [float(len(text)) for text in completions]


def test_the_completions_that_trl_logs_are_read_as_rewards(make_trainer, prompts, tmp_path):
    def half(completions, **_):
        return [len(text) / 2 for text in completions]

    make_trainer(reward=[length_reward, half], log_completions=True, max_steps=1).train()
    (path,) = (tmp_path / "completions").glob("*.parquet")
    with pytest.raises(DataError, match=r"2 columns may be it \(length_reward, half\); --map"):
        read_log(path)
    rows = read_log(path, mapping={"reward": "half"})
    assert len(rows) == 8
    assert {row.prompt for row in rows} <= set(prompts["prompt"])
    assert [row.sample for row in rows] == [0, 1, 2, 3] * 2
    assert all(row.reward == len(row.completion) / 2 for row in rows)
    assert rows[0].columns["length_reward"] == 2 * rows[0].reward
