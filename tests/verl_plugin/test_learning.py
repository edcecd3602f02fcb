"""verl and TRL train the built-in model with the same settings: both have to raise max@8."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

from maxatk.statistics.intervals import mean_interval
from processes import patience

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2)  # of the problems, the model before training and the order of the prompts
STEPS = 60
PROMPTS = 8
SAMPLES = 16
K = 8
LEARNING_RATE = 2e-4
CLOSE = 0.05  # of max@8: what the two may differ by
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(patience(7200))]


@pytest.fixture
def other_python():
    """The Python that has TRL, with which verl cannot share an environment."""
    python = os.environ.get("MAXATK_TRL_PYTHON")
    return python or pytest.skip("MAXATK_TRL_PYTHON names no Python with TRL: make nightly")


def maxatk(python, folder, *arguments):
    run([python, "-m", "maxatk", *map(str, arguments)], cwd=folder)


def run(command, **options):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout[-3000:]


def train_with_trl(python, folder, seed):
    settings = {
        "model": "runs/mini/base",
        "problems": "runs/mini/train.jsonl",
        "out": "trl",
        "trainer.method": "bon_loo1",
        "trainer.k": K,
        "trainer.num_generations": SAMPLES,
        "trainer.per_device_train_batch_size": PROMPTS * SAMPLES,
        "trainer.num_iterations": 1,
        "trainer.max_steps": STEPS,
        "trainer.learning_rate": LEARNING_RATE,
        "trainer.lr_scheduler_type": "constant",
        "trainer.warmup_steps": 0,
        "trainer.seed": seed,
    }
    overrides = (f"{name}={value}" for name, value in settings.items())
    maxatk(python, folder, "train", "mini/train", *overrides)
    return "trl"


def train_with_verl(folder, seed):
    actor = "actor_rollout_ref.actor"
    settings = {
        "data.train_files": f"{folder}/train.parquet",
        "data.val_files": f"{folder}/train.parquet",
        "data.val_max_samples": 4,
        "data.train_batch_size": PROMPTS,
        "data.seed": seed,
        "algorithm.maxatk.k": K,
        "actor_rollout_ref.model.path": f"{folder}/runs/mini/base",
        "actor_rollout_ref.rollout.n": SAMPLES,
        f"{actor}.ppo_mini_batch_size": PROMPTS,
        f"{actor}.optim.lr": LEARNING_RATE,
        f"{actor}.optim.weight_decay": 0.0,
        f"{actor}.checkpoint.save_contents": "[model,hf_model]",
        "trainer.total_training_steps": STEPS,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": STEPS,
        "trainer.default_local_dir": f"{folder}/verl",
        "hydra.run.dir": f"{folder}/hydra",
    }
    overrides = [f"{name}={value}" for name, value in settings.items()]
    command = [str(ROOT / "recipes" / "verl" / "mini.sh"), *overrides]
    run(command, cwd=ROOT, env={**os.environ, "PYTHON": sys.executable})
    return f"verl/global_step_{STEPS}/actor/huggingface"


def at_8(python, folder, model, name):
    """max@8 of every test problem, of 32 samples each."""
    maxatk(
        python,
        folder,
        *("eval", "--model", model, "--problems", "runs/mini/test.jsonl", "--out", name),
        *("--samples", 32, "--max-new-tokens", 32, "--progress", "none"),
    )
    results = json.loads((folder / name / "results.json").read_text())
    return np.array(results["per_problem"]["max@k"][str(K)])


def values_at_8(python, folder, seed):
    """max@8 of every test problem, by model: the one before training and the two after it."""
    folder.mkdir()
    maxatk(python, folder, "mini", "runs/mini", "--seed", seed, "--progress", "none")
    maxatk(
        sys.executable,
        folder,
        *("problems", "export", "runs/mini/train.jsonl", "--for", "verl", "--out", "train.parquet"),
    )
    models = {
        "base": "runs/mini/base",
        "trl": train_with_trl(python, folder, seed),
        "verl": train_with_verl(folder, seed),
    }
    values = {name: at_8(python, folder, model, f"eval-{name}") for name, model in models.items()}
    print(f"seed {seed}:", {name: round(float(of.mean()), 3) for name, of in values.items()})
    return values


def shown(name, of_seeds):
    """The mean over the seeds of means over problems, printed with Student's 95% interval."""
    interval = mean_interval(np.array([values.mean() for values in of_seeds])[:, None])
    mean, low, high = (float(end[0]) for end in (interval.mean, interval.low, interval.high))
    print(f"{name}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    return mean


def test_verl_raises_max_at_8_about_as_much_as_trl(other_python, tmp_path):
    per_seed = [values_at_8(other_python, tmp_path / str(seed), seed) for seed in SEEDS]
    for name in per_seed[0]:
        shown(f"max@{K} of {name}", [of[name] for of in per_seed])
    for name in ("trl", "verl"):
        gains = [of[name] - of["base"] for of in per_seed]
        shown(f"gain by {name}", gains)
        assert all(mean_interval(gain[:, None]).low[0] > 0 for gain in gains)  # over problems
    assert abs(shown("verl - trl", [of["verl"] - of["trl"] for of in per_seed])) < CLOSE
