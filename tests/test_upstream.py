"""What is ready to send to other projects holds what it says."""

import importlib.util
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import maxatk

UPSTREAM = Path(__file__).parents[1] / "upstream"
RECIPE = UPSTREAM / "verl-recipe" / "maxatk"


def python_of(page):
    return re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1]


def test_a_mean_centred_credit_costs_the_factor_that_the_review_names():
    spec = importlib.util.spec_from_file_location("pkpo", UPSTREAM / "rllm" / "pkpo_factor.py")
    pkpo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pkpo)
    for n, k in ((4, 1), (4, 2), (4, 4), (6, 3)):
        assert pkpo.factor(n, k) == 1 - Fraction(k, n)


def test_the_hook_of_the_comment_needs_no_more_than_centred_rewards():
    torch = pytest.importorskip("torch")
    snippet = re.search(
        r"```python\n(.*?)```", (UPSTREAM / "trl/advantage_hook.md").read_text(), re.S
    )
    scope = {"GRPOTrainer": object, "maxatk": maxatk}
    exec(snippet[1], scope)
    trainer = scope["BestOfTrainer"]()
    trainer.num_generations = 8
    rewards = torch.tensor(np.random.default_rng(0).random((3, 8)))
    centred = rewards - rewards.mean(1, keepdim=True)
    advantages = trainer._transform_advantages(centred.flatten()).view(3, 8)
    expected = maxatk.advantages(rewards, method="bon_centred", k=4) * 8
    torch.testing.assert_close(advantages, expected)


def test_the_entry_for_the_paper_index_is_python():
    compile(python_of(UPSTREAM / "trl" / "paper_index.md"), "paper_index.md", "exec")


@pytest.mark.parametrize("script", sorted(RECIPE.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_is_bash(script):
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.long
def test_the_data_of_the_recipe_are_prepared_and_exported(real_data, tmp_path):
    rows = real_data("mbpp/mbpp.jsonl")
    command = Path(sys.executable).parent / "maxatk"
    path = f"{command.parent}:/usr/bin:/bin"
    subprocess.run(
        [RECIPE / "prepare_data.sh", rows],
        env={"PATH": path, "OUT": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "train.parquet").stat().st_size > 1000
    assert (tmp_path / "test.parquet").stat().st_size > 1000
