"""The demo end to end at its smallest, killed in the middle and started again."""

import json
import os
import re
import subprocess
import sys
import time

import psutil
import pytest
import yaml

from maxatk.cli.main import main
from processes import patience, still_alive, wait_for

RECIPE = {
    "title": "A small demo",
    "seeds": [0],
    "mini": {
        "train_problems": 16,
        "test_problems": 3,
        "tests": 2,
        "warm_start": {"problems": 640},
    },
    "train": {
        "verifier": {"workers": 1, "time_limit": 1.0, "memory_limit_mb": 256},
        "trainer": {
            "k": 2,
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "num_iterations": 2,
            "max_steps": 2,
            "max_completion_length": 16,
            "use_cpu": True,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
        },
    },
    "eval": {
        "sampling": {"samples": 8, "max_new_tokens": 16},
        "verifier": {"workers": 1, "time_limit": 1.0},
    },
    "grids": [
        {
            "method": {
                "exact": {"trainer.method": "bon_off_policy_exact"},
                "grpo": {"trainer.method": "grpo"},
            }
        }
    ],
}


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump({"out": str(tmp_path / "run"), **RECIPE}))
    return path


def start(recipe, *flags, stderr=subprocess.STDOUT):
    return subprocess.Popen(
        [sys.executable, "-m", "maxatk", "demo", "--recipe", str(recipe), *flags],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )


@pytest.mark.long
@pytest.mark.timeout(patience(280))
def test_a_killed_demo_goes_on_from_the_last_finished_stage(recipe, tmp_path):
    run = tmp_path / "run"
    first = start(recipe)
    marker = wait_for(run / "work" / "stages", "mini-*.json")
    time.sleep(3)  # into the trainings
    children = psutil.Process(first.pid).children(recursive=True)
    assert children
    first.kill()
    first.wait(timeout=patience(30))
    assert still_alive(children) == []
    made = marker.stat().st_mtime_ns
    second = start(recipe, "--fast")
    output = second.communicate(timeout=patience(240))[0]
    assert second.returncode == 0, output
    assert "these numbers mean nothing" in output
    assert marker.stat().st_mtime_ns == made
    check_results(run, output)
    again = start(recipe, "--format", "json", stderr=subprocess.DEVNULL)
    rows = json.loads(again.communicate(timeout=patience(120))[0])["metrics"]
    assert {row["model"] for row in rows} == {"base", "exact", "grpo"}


def check_results(run, output):
    page = (run / "report.html").read_text()
    assert "Which model for N attempts" in page
    assert (run / "figures" / "metric.svg").is_file()
    for name, method in {"base": "base", "exact": "bon_off_policy_exact", "grpo": "grpo"}.items():
        (folder,) = (run / "work").glob(f"eval-{method}-0-*")
        results = json.loads((folder / "results.json").read_text())
        assert results["counts"]["samples"] == 3 * 8
        assert not list((run / "work").glob(f"train-{method}-*/adapter"))
        shown = f"{results['metrics']['max@k']['8']['mean']:.3f}".removeprefix("0")
        row = next(line for line in output.splitlines() if re.search(rf"│ {name} +│", line))
        assert shown in row
        assert shown in page


def test_a_demo_of_several_seeds_is_refused(recipe, tmp_path, capsys):
    assert main(["demo", "seeds=[0, 1]", "--recipe", str(recipe)]) == 2
    assert "seeds: a demo has one, got [0, 1]" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "override, message",
    [
        ("trian={}", "unknown key 'trian'"),
        ("eval.sampling.samples=0", "samples: must be an integer of 1 or more, got 0"),
        ("train", "must have the form key=value"),
    ],
)
def test_bad_settings_are_refused_before_any_stage(recipe, tmp_path, capsys, override, message):
    assert main(["demo", override, "--recipe", str(recipe)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
