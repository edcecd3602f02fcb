"""Training by a reward function of one's own: problems without tests, columns, failures."""

import json

import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem
from maxatk.train import TrainRecipe, train

OWN = """
seen = []

def reward(prompts, completions, answer, level, **_):
    seen.append((len(completions), sorted(set(answer)), sorted(set(level))))
    if len(completions) == 1 and "a" in completions[0]:
        raise ValueError("an a")
    return [len(set(text)) / 10 for text in completions]
"""


@pytest.fixture
def recipe(tmp_path, model_folder, mini_problems):
    (tmp_path / "own.py").write_text(OWN)
    problems = [
        Problem(p.problem.id, p.problem.prompt, answer=str(i % 2), meta={"level": i % 3})
        for i, p in enumerate(mini_problems)
    ]
    write_jsonl(tmp_path / "p.jsonl", (p.to_json() for p in problems))

    def make(**changes):
        trainer = {
            "k": 2,
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "max_completion_length": 6,
            "max_steps": 2,
            "use_cpu": True,
            "gradient_checkpointing": False,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
        }
        return TrainRecipe(
            **{
                "model": str(model_folder),
                "problems": str(tmp_path / "p.jsonl"),
                "out": str(tmp_path / "out"),
                "reward": f"{tmp_path}/own.py:reward",
                "trainer": trainer,
                **changes,
            }
        )

    return make


def test_a_function_rewards_problems_without_tests_and_is_recorded(recipe, tmp_path):
    out = train(recipe())
    record = json.loads((out / "train.json").read_text())
    rewards = [row["reward"] for row in record["log_history"] if "reward" in row]
    assert len(rewards) == 2
    assert all(value > 0 for value in rewards)
    assert record["recipe"]["reward"] == f"{tmp_path}/own.py:reward"
    assert len(record["reward"][0]["sha256"]) == 64
    assert (out / "model.safetensors").is_file()


def test_what_a_reward_lacks_is_refused_before_the_model_is_loaded(recipe, tmp_path):
    with pytest.raises(InvalidValueError, match="has no tests, which the reward of a program"):
        train(recipe(reward="continuous"))
    (tmp_path / "own.py").write_text("def reward(prompts, completions): ...")
    with pytest.raises(InvalidValueError, match="cannot be called as function"):
        train(recipe())
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    rows[0]["meta"]["level"] = {"a": [1]}
    (tmp_path / "own.py").write_text(OWN)
    write_jsonl(tmp_path / "p.jsonl", rows)
    with pytest.raises(DataError, match="meta: a field must have one type in all problems"):
        train(recipe())
    assert not (tmp_path / "out").exists()
