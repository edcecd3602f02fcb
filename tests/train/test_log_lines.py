"""What a training says while it runs and at its end."""

import json
import re
import signal
import subprocess
import sys

import pytest
import yaml

from maxatk.cli.main import main
from maxatk.folders import TRAIN_RECORD
from maxatk.jsonl import write_jsonl
from maxatk.train.log_lines import first_and_last, log_line, signal_warning
from processes import patience


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


def test_the_first_tenth_of_the_log_is_compared_with_the_last():
    rows = [row(max1=float(i), max8=10.0 * i, k=8.0) for i in range(20)]
    assert first_and_last([*rows, {"train_loss": 0.0}]) == {
        "max@1": (0.5, 18.5),
        "max@8": (5.0, 185.0),
    }
    assert first_and_last(rows[:1]) == {}
    unknown = [row(max1=0.5, max8=float("nan"), k=8.0), *rows[:2]]
    assert first_and_last(unknown) == {"max@1": (0.5, 1.0)}


def test_more_than_half_of_the_groups_without_signal_are_a_warning():
    shares = [{"frac_groups_without_signal": share} for share in (0.5, 0.75)]
    assert "62% of the groups had no signal" in signal_warning(shares)
    assert signal_warning(shares[:1]) is None
    assert signal_warning([]) is None


@pytest.fixture
def recipe(tmp_path, model_folder, mini_problems):
    write_jsonl(tmp_path / "problems.jsonl", (p.problem.to_json() for p in mini_problems))
    (tmp_path / "own.py").write_text(
        "def letters(completions, **_):\n    return [len(set(text)) / 99 for text in completions]\n"
        "def same(completions, **_):\n    return [0.5] * len(completions)\n"
    )
    settings = {
        "model": str(model_folder),
        "problems": str(tmp_path / "problems.jsonl"),
        "out": str(tmp_path / "out"),
        "reward": f"{tmp_path / 'own.py'}:letters",
        "verifier": {"workers": 1},
        "trainer": {
            "k": 2,
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "max_steps": 10,
            "max_completion_length": 6,
            "beta": 0.1,
            "use_cpu": True,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 1,
        },
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(settings))
    return str(tmp_path / "recipe.yaml")


def test_a_training_prints_a_line_every_logging_step_and_what_moved(recipe, tmp_path, capsys):
    assert main(["train", recipe]) == 0
    printed = capsys.readouterr()
    numbers = r"reward 0\.\d+, max@1 0\.\d+, max@2 0\.\d+, max@4 0\.\d+, KL -?0\.\d+, "
    line = rf"^step (\d+) of 10: {numbers}[\d.]+% cut off by length, [\d.]+ s$"
    assert re.findall(line, printed.err, re.M) == [str(step) for step in range(1, 11)]
    history = json.loads((tmp_path / "out" / TRAIN_RECORD).read_text())["log_history"]
    first, last = history[0]["max@2"], history[9]["max@2"]
    assert f"max@2 {first:.3f} to {last:.3f}, max@4" in printed.out
    assert "(first and last tenth of the training log, on different prompts)" in printed.out
    assert "without signal" not in printed.err
    # Finished: nothing is trained, and the same is said of the log, now as JSON.
    assert main(["train", recipe, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["training"]
    assert [r["metric"] for r in rows] == ["max@1", "max@2", "max@4"]
    assert (rows[1]["first"], rows[1]["last"]) == (first, last)


@pytest.mark.parametrize(
    ("saving", "said"),
    [
        ("no", "interrupted; nothing is kept, since no checkpoint was written"),
        ("steps", r"interrupted; the same command resumes from checkpoint-\d+$"),
    ],
)
def test_an_interrupt_says_what_is_kept(recipe, started, saving, said):
    steps = ("trainer.max_steps=5000", "trainer.save_steps=1", f"trainer.save_strategy={saving}")
    command = (sys.executable, "-m", "maxatk", "train", recipe, *steps)
    training = started(*command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    for line in training.stderr:
        if line.startswith("step 3 of"):
            break
    training.send_signal(signal.SIGINT)
    _, errors = training.communicate(timeout=patience(60))
    assert training.returncode == 130
    assert re.search(said, errors.splitlines()[-1])


@pytest.mark.filterwarnings("ignore:train. every group")
def test_a_training_without_signal_warns_early_and_at_the_end(recipe, tmp_path, capsys):
    assert main(["train", recipe, f"reward={tmp_path / 'own.py'}:same"]) == 0
    lines = capsys.readouterr().err.splitlines()
    warned = [n for n, text in enumerate(lines) if "100% of the groups had no signal" in text]
    steps = [n for n, text in enumerate(lines) if text.startswith("step ")]
    assert steps[0] < warned[0] < steps[1]
    assert warned[-1] > steps[-1]
