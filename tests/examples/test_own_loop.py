"""The trainer of one file trains, and writes what `maxatk diagnose` and `maxatk view` read."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from maxatk import Problem, TestCase, advantages
from maxatk.cli.main import main
from maxatk.jsonl import write_jsonl
from maxatk.view.watched_training import WatchedTraining
from processes import patience
from tiny import save_tiny_model

SCRIPT = Path(__file__).parents[2] / "examples" / "own_loop.py"
STEPS = 5
SAMPLES = 16

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the model and problems, and that of a training in five steps, three batches."""
    folder = tmp_path_factory.mktemp("own")
    save_tiny_model(folder / "base")  # whose random completions are often programs that run
    problems = [
        Problem(f"p{n}", "#\n" * (1 + n % 3), (TestCase(input="", output=str(1 + n % 3)),))
        for n in range(8)
    ]
    write_jsonl(folder / "train.jsonl", (problem.to_json() for problem in problems))
    subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(folder / "out"), "--steps", str(STEPS)],
        check=True,
        timeout=patience(240),
    )
    return folder


def test_the_record_is_that_of_a_training(trained):
    record = WatchedTraining(trained / "out")
    assert record.progress == f"step {STEPS} of {STEPS}"
    assert record.about["method"] == "bon_off_policy_exact"
    assert sorted(record.groups) == [1, 3, 5]  # two optimizer steps on each batch, one on the last
    assert [row["step"] for row in record.log] == [1, 2, 3, 4, 5]
    assert [row["objective/k"] for row in record.log if "objective/k" in row] == [8.0, 5.0, 2.0]
    # At the first step of a batch the policy is the sampler; at the second it has moved.
    ratios = [row["ratio/max_abs_delta"] for row in record.log]
    assert ratios[0] == ratios[2] == ratios[4] == 0
    assert min(ratios[1], ratios[3]) > 0


def test_the_advantages_are_those_of_the_package(trained):
    lines = map(json.loads, (trained / "out" / "groups.jsonl").read_text().splitlines())
    groups = [line for line in lines if "group" in line]
    assert len(groups) == 12
    for group in groups:
        rewards = np.array([[sample["reward"] for sample in group["samples"]]])
        expected = SAMPLES * advantages(rewards, "bon_off_policy_exact", group["k"])
        logged = [sample["advantage"] for sample in group["samples"]]
        np.testing.assert_allclose(logged, expected[0], atol=1e-6)


def test_the_weights_have_moved(trained):
    before = AutoModelForCausalLM.from_pretrained(trained / "base").state_dict()
    after = AutoModelForCausalLM.from_pretrained(trained / "out").state_dict()
    assert any(not torch.equal(weight, after[name]) for name, weight in before.items())


def test_diagnose_reads_its_log(trained, capsys):
    assert main(["diagnose", str(trained / "out")]) == 0
    assert f"fire on {STEPS} rows of the log" in capsys.readouterr().out
