"""README and the tutorials by copy and paste: their shell blocks run in bash, with small models."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import family, kill, patience
from tiny import save_tiny_model
from train.conftest import mini_problems, model_folder

__all__ = ["mini_problems", "model_folder"]  # fixtures

ROOT = Path(__file__).parents[1]
HUB = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
WARM = ROOT / "tests" / "warm_command.py"
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1"}
pytestmark = [pytest.mark.long, pytest.mark.timeout(patience(600))]

BLOCK = re.compile(r"(<!-- gpu -->\n)?```sh\n(.*?)```", re.DOTALL)

# Stands for the command: the same, with what makes it small in place of the tutorial's settings.
COMMAND = """#!/usr/bin/env bash
small=()
case "$1" in
mini) small=(--train-problems 16 --test-problems 4 --tests 2 --warm-start.problems 1280) ;;
train)
  small=(trainer.max_steps=2 trainer.save_strategy=no trainer.use_cpu=true) ;;
esac
if [[ " $* " == *" mini/train "* ]]; then
  small+=(trainer.per_device_train_batch_size=32)
fi
kept=()
while (($#)); do
  if [[ " ${small[*]%%=*} " == *" ${1%%=*} "* ]]; then
    [[ $1 == --* ]] && shift # of a flag its value too
  else
    kept+=("$1")
  fi
  shift
done
exec CALL "${kept[@]}" "${small[@]}"
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Return the start of a command that runs in a process with all imports done."""
    address = tmp_path_factory.mktemp("warm") / "socket"
    server = subprocess.Popen([sys.executable, WARM, "serve", address], env=ENVIRONMENT)
    end = time.monotonic() + patience(120)
    while not address.exists():
        assert time.monotonic() < end, "the imports do not end"
        assert server.poll() is None, "the imports failed"
        time.sleep(0.05)
    yield f"{sys.executable} -I -S {WARM} call {address}"
    kill(family(server.pid))
    server.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm):
    """Return a folder whose `maxatk` is small and warm, for all tests of this file."""
    path = tmp_path_factory.mktemp("tutorials")
    (path / "bin").mkdir()
    (path / "bin" / "maxatk").write_text(COMMAND.replace("CALL", warm))
    (path / "bin" / "maxatk").chmod(0o755)
    (path / "recipes").symlink_to(ROOT / "recipes")
    return path


@pytest.fixture(scope="module")
def run(folder):
    def run(*blocks):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=patience(500),
            env={**ENVIRONMENT, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        )
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
        return done.stdout

    return run


def blocks(page):
    text = (ROOT / page).read_text()
    return [block for gpu, block in BLOCK.findall(text) if not gpu]


@pytest.fixture(scope="module")
def tiny(run, folder):
    """Run the first tutorial; return what it printed."""
    printed = run(*blocks("docs/tutorials/tiny-model.md"))
    return printed, folder


def test_the_tiny_model_in_ten_minutes(tiny):
    printed, folder = tiny
    assert "max@64" in printed
    assert (folder / "runs" / "tiny" / "report.html").stat().st_size > 100_000
    for model in ("grpo", "bon_loo1"):
        assert (folder / "runs" / "tiny" / model / "train.json").exists()


def test_best_of_n_in_production(tiny, run):
    printed = run(*blocks("docs/tutorials/best-of-n.md"))
    assert "majority" in printed
    assert "random" in printed


def test_your_own_reward(run, folder):
    printed = run(*blocks("docs/tutorials/own-reward.md"))
    assert "max@8" in printed
    assert (folder / "runs" / "own" / "trained" / "train.json").exists()


def test_your_own_code_problems_up_to_the_gpu(run, folder, tmp_path):
    save_tiny_model(tmp_path / "model", max_position_embeddings=4096)
    texts = [block.replace(HUB, str(tmp_path / "model")) for block in blocks(CODE)]
    printed = run(*texts)
    assert "rollout batch" in printed
    scores = (folder / "runs" / "ours" / "solved" / "scores.jsonl").read_text()
    assert scores.count('"reward":1.0') + scores.count('"reward": 1.0') == 4


CODE = "docs/tutorials/code-on-one-gpu.md"


def test_the_commands_of_the_readme(run, folder):
    text = (ROOT / "README.md").read_text()
    (recipe,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (folder / "RECIPE.yaml").write_text(recipe)
    row = '{"task_id": 7, "text": "Double a number.", "code": "def f(x):\\r\\n  return 2 * x",'
    row += ' "test_list": ["assert f(2) == 4", "assert f(5) == 10"], "test_setup_code": "",'
    row += ' "challenge_test_list": []}\n'
    (folder / "mbpp.jsonl").write_text(row)
    (commands,) = [block for block in blocks("README.md") if "maxatk problems list" in block]
    printed = run(commands)
    assert (folder / "runs" / "report.html").exists()
    for shown in ("livecodebench", "seccomp", "pass@1"):
        assert shown in printed


def test_the_trainer_of_the_readme(tmp_path, monkeypatch, model_folder):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (block,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "Trainer(" in block
    ]
    small = "use_cpu=True, max_steps=1, max_completion_length=8, report_to='none', bf16=False, "
    block = re.sub(r'"Qwen/[^"]*"', repr(str(model_folder)), block)
    block = block.replace(
        "Print the sum of two numbers.", "print(1)"
    )  # its tokenizer knows no more
    scope = {}
    exec(block.replace("args=MaxAtKConfig(", f"args=MaxAtKConfig({small}"), scope)
    assert scope["trainer"].state.global_step == 1
