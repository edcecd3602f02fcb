"""Every rule about a training's log, on trainings with the fault; sound ones break none."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from maxatk.cli.main import main
from maxatk.folders import TRAIN_RECORD
from maxatk.records import Outcome, TestResult, Verdict
from maxatk.train import MaxAtKTrainer
from maxatk.training.group_log import GROUPS
from maxatk.training.symptoms import SYMPTOMS, findings

from .conftest import config, reward_with_gaps, text_reward

# (max@1, max@16) of 160 on-policy steps on the built-in model: of GRPO with a learning rate of
# 6e-4, and of bon_loo1 with 1.5e-4.
TOO_FAST = [
    *((0.093, 0.621), (0.105, 0.517), (0.155, 0.583), (0.143, 0.558), (0.183, 0.638)),
    *((0.174, 0.513), (0.208, 0.579), (0.217, 0.563), (0.182, 0.446), (0.234, 0.571)),
    *((0.249, 0.479), (0.196, 0.417), (0.216, 0.433), (0.202, 0.392), (0.222, 0.429)),
]
SOUND = [
    *((0.090, 0.638), (0.081, 0.525), (0.091, 0.508), (0.116, 0.592), (0.129, 0.658)),
    *((0.125, 0.567), (0.132, 0.563), (0.155, 0.658), (0.131, 0.604), (0.182, 0.683)),
    *((0.176, 0.658), (0.144, 0.613), (0.163, 0.646), (0.143, 0.554), (0.178, 0.658)),
]


def log_of(moved):
    return [{"reward": first, "max@1": first, "max@16": best} for first, best in moved]


def found_in(log):
    return {finding.symptom.name: finding.evidence for finding in findings(log)}


@pytest.fixture
def logged(make_trainer):
    """Train for a few steps and return the log."""

    def train(reward=text_reward, **changes):
        trainer = make_trainer(reward, cls=MaxAtKTrainer, **changes)
        trainer.train()
        return trainer.state.log_history

    return train


def same(completions, **_):
    return [0.5] * len(completions)


def of_the_prompt(prompts, **_):
    return [len(prompt) / 99 for prompt in prompts]


def slow(completions, **_):
    return text_reward(completions)


slow.verdicts = [Verdict((TestResult(Outcome.TIME_LIMIT, 1.0), TestResult(Outcome.PASSED, 1.0)))]


def short(completions, **_):
    return [1 / (1 + len(text)) for text in completions]


def long(completions, **_):
    return [1 - value for value in short(completions)]


def constant_passes(completions, **_):
    return [float(text == "#\n") for text in completions]


STEEP = {"learning_rate": 3.0, "max_grad_norm": 1e9, "max_completion_length": 24}
LEARNS = {"learning_rate": 1e-2, "optim": "adamw_torch", "max_steps": 24}
OFTEN = {**STEEP, "num_iterations": 4, "max_steps": 8}
DIVERGED = {**STEEP, "learning_rate": 1e30, "num_iterations": 2, "max_steps": 2}

FAULTS = {
    "reward never varies": (same, {}, "every reward was 0.5 in all 3 rows"),
    "no signal": (of_the_prompt, {"num_generations": 2}, "100% of the groups had no signal (max@1"),
    "one answer for all": (text_reward, {"temperature": 1e-4}, "25% of the samples of a group"),
    "one answer for many prompts": (
        constant_passes,
        {"max_completion_length": 1, "temperature": 0.2, "per_device_train_batch_size": 32},
        "of the rewarded samples have a text rewarded elsewhere too",
    ),
    "rewards part ways": (
        [short, long],
        {**LEARNS, "reward_weights": [1.0, 0.0]},
        "rewards/short/mean 0.",
    ),
    "cut off": (text_reward, {"max_completion_length": 1}, "of the completions were cut off"),
    "verifier fails": (reward_with_gaps, {}, "of the samples have no reward"),
    "time limit": (slow, {}, "50% of the tests ran out of time"),
    "ratios off": (text_reward, {**OFTEN, "method": "bon_off_policy_exact"}, "ratios were clamped"),
    "clipping": (text_reward, OFTEN, "of the tokens were clipped"),
    "far from the start": (text_reward, {**STEEP, "beta": 1e-6, "max_steps": 6}, "nats a token"),
    "not finite": (text_reward, DIVERGED, "not a finite number"),
}
"""Rule -> a reward and settings of a tiny training that break it, and a part of the evidence."""


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_training_with_the_fault_breaks_the_rule(name, logged):
    reward, changes, evidence = FAULTS[name]
    symptoms = found_in(logged(reward, **changes))
    assert evidence in symptoms.get(name, ""), symptoms


@pytest.fixture
def memorized(prompts, model_folder, tmp_path):
    """The log of a training for short answers, evaluated on prompts where long ones are right."""
    known = set(prompts["prompt"][:16])

    def right(prompts, completions, **_):
        pairs = zip(prompts, short(completions), strict=True)
        return [value if prompt in known else 1 - value for prompt, value in pairs]

    def train(reward):
        trainer = MaxAtKTrainer(
            model=str(model_folder),
            reward_funcs=reward,
            args=config(tmp_path, **LEARNS, eval_strategy="steps", eval_steps=6),
            train_dataset=prompts.select(range(16)),
            eval_dataset=prompts.select(range(16, 24)),
        )
        trainer.train()
        return trainer.state.log_history

    return train(right), train(short)


def test_a_training_that_helps_its_own_prompts_alone_is_found(memorized):
    of_its_own, of_all = memorized
    assert "held out 0." in found_in(of_its_own)["memorizing"]
    assert "memorizing" not in found_in(of_all)


def test_a_training_that_helps_on_one_of_several_sets_does_not_memorize(memorized):
    of_its_own, of_all = memorized

    def with_sets(log, **names):
        return [{names.get(key, key): value for key, value in row.items()} for row in log]

    of_one_set = with_sets(of_its_own, **{"eval_max@1": "eval_hard_max@1"})
    assert "held out 0." in found_in(of_one_set)["memorizing"]
    assert "memorizing" not in found_in([*of_one_set, *held_out_rows(of_all)])


def test_the_mean_reward_stands_in_for_a_held_out_max_at_1(memorized):
    """As in the record of `best_of`, which logs the held-out max@k of its own k alone."""

    def without(log):
        return [{key: row[key] for key in row if key != "eval_max@1"} for row in log]

    of_its_own, of_all = memorized
    assert found_in(without(of_its_own)) == found_in(of_its_own)
    assert "memorizing" not in found_in(without(of_all))


def held_out_rows(log):
    return [{"eval_easy_max@1": row["eval_max@1"]} for row in log if "eval_max@1" in row]


def test_a_training_without_a_fault_breaks_none(logged):
    sound = {"max_completion_length": 360, "learning_rate": 1e-4, "num_generations": 8}
    assert found_in(logged(**sound)) == {}


def test_a_reward_that_never_varies_is_not_told_as_no_signal_too(logged):
    assert "no signal" not in found_in(logged(same))


def test_samples_that_are_masked_are_not_those_without_a_reward(logged):
    masked = {"method": "bon_off_policy_exact", "mask_truncated_completions": True}
    symptoms = found_in(logged(**masked, max_completion_length=3))
    assert "verifier fails" not in symptoms
    assert "cut off" in symptoms


def test_max_at_n_that_falls_while_max_at_1_rises_is_found():
    assert found_in(log_of(TOO_FAST)) == {
        "best of many falls": "max@1 0.136 to 0.217, max@16 0.583 to 0.430"
    }
    assert found_in(log_of(SOUND)) == {}


def test_a_training_after_which_all_is_worse_is_found():
    ended = [(0.02, 0.11), (0.01, 0.09), (0.0, 0.12), (0.01, 0.1), (0.02, 0.1)]
    symptoms = found_in(log_of([*SOUND[:10], *ended]))
    assert symptoms == {"training destroys": "max@1 0.101 to 0.012, max@16 0.584 to 0.104"}
    assert found_in(log_of(SOUND[::-1])) == {}  # that much may be the prompts


def test_the_sampler_of_another_policy_and_few_effective_samples_are_ratios_that_are_off():
    sampler = [{"reward": 0.5, "sampling/sampling_logp_difference/mean": 0.4}]
    assert "sampler 0.40 nats off" in found_in(sampler)["ratios off"]
    few = [{"reward": 0.5, "ratio/effective_samples": 0.02}]
    assert found_in(few) == {"ratios off": "2.0% effective samples"}


def test_what_a_log_does_not_know_breaks_no_rule():
    names = [key for rule in SYMPTOMS for key in rule.reads]
    unknown = {key: None for key in names if key not in ("loss", "grad_norm")}
    assert found_in([unknown, {"reward": 0.5}, {"train_loss": 0.0}]) == {}
    assert findings([]) == []


def test_a_row_that_is_held_out_too_counts_once():
    log = log_of(TOO_FAST)
    rows = [{**row, "eval_max@1": row["max@1"]} for row in log]
    assert found_in(rows) == found_in(log)


def test_every_rule_has_a_test_and_a_row_in_the_documents_and_no_two_have_one_name():
    tested = {*FAULTS, "memorizing", "best of many falls", "training destroys", "tools fail"}
    names = [rule.name for rule in SYMPTOMS]
    assert sorted(names) == sorted(tested)
    page = Path(__file__).parents[2] / "docs" / "training-log.md"
    assert [name for name in names if f"\n| {name} | " not in page.read_text()] == []


def test_a_training_that_does_not_move_seldom_breaks_a_rule_about_moves():
    """Judged after every row of the log, as the trainer does it."""
    draw = np.random.default_rng(0)
    broken = 0
    for _ in range(100):
        chances = draw.beta(0.4, 1.6, (30, 16, 1))
        rewards = (draw.random((30, 16, 16)) < chances).astype(float)
        moved = zip(rewards.mean(axis=(1, 2)), rewards.max(axis=2).mean(axis=1), strict=True)
        log = log_of([(float(one), float(best)) for one, best in moved])
        broken += any(found_in(log[:rows]) for rows in range(10, 31))
    assert broken <= 1


def test_the_trainer_says_each_finding_once_and_diagnose_says_it_again(
    toy_recipe, own_rewards, tmp_path, capsys
):
    recipe = {**toy_recipe(max_steps=6), "reward": f"{own_rewards}:same"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert main(["train", str(tmp_path / "recipe.yaml")]) == 0
    stderr = capsys.readouterr().err
    assert stderr.count("warning: reward never varies: every reward was 0.5") == 1
    assert "warning: no signal" not in stderr
    assert f"maxatk diagnose {recipe['out']} has evidence and remedies" in stderr
    assert main(["diagnose", recipe["out"], "--format", "json"]) == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["findings"][0]["evidence"] == "every reward was 0.5 in all 6 rows of the log"
    assert [rule["name"] for rule in diagnosis["rules"]] == [rule.name for rule in SYMPTOMS]
    assert diagnosis["rules"][0]["evidence"]
    assert diagnosis["rules"][0]["reads"][0] == "reward"


def test_the_log_of_a_training_that_goes_on_is_that_of_its_groups_or_its_last_checkpoint(
    tmp_path, capsys
):
    (tmp_path / TRAIN_RECORD).write_text(json.dumps({"recipe": {}}))
    for step, rows in ((5, SOUND), (10, TOO_FAST)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        state = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        state.write_text(json.dumps({"log_history": log_of(rows)}))
    assert main(["diagnose", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "best of many falls" in printed
    assert "max@16 0.583 to 0.430" in printed
    assert "1 of 16 rules fire on 15 rows of the log" in printed
    state.write_text('{"log_history": 3}')
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "trainer_state.json: log_history: must be a list" in capsys.readouterr().err
    lines = [
        json.dumps({"step": n, "log": row}, separators=(",", ":"))
        for n, row in enumerate(log_of(SOUND))
    ]
    (tmp_path / GROUPS).write_text("\n".join([*lines, '{"step":16,"log":{"torn"']))
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "0 of 16 rules fire on 15 rows of the log" in capsys.readouterr().out
    (tmp_path / GROUPS).write_text('{"step":1,"log":3}\n')
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "groups.jsonl:1: no row of a log" in capsys.readouterr().err
    (tmp_path / GROUPS).unlink()
    state.write_text('{"log_history": []}')
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "its log has no row about training" in capsys.readouterr().err
