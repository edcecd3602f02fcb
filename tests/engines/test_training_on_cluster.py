"""TRL's trainer with its programs on a Ray cluster: the same training as on one machine."""

import pytest

pytest.importorskip("ray", reason="programs on a cluster need Ray")
pytest.importorskip("trl", reason="TRL and verl cannot share an environment: make test")

from maxatk import Problem, TestCase
from maxatk.cli.main import main
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.jsonl import write_jsonl
from maxatk.mini import WarmStart
from maxatk.mini.model import new_model, train_tokenizer
from maxatk.mini.warm_start import warm_start
from processes import patience

pytestmark = pytest.mark.timeout(patience(300))

CLOCK = ("seconds", "per_second", "time")


@pytest.fixture(scope="module")
def guesser(tmp_path_factory):
    """The folder of a model that has learnt to print some number, and problems that ask for one."""
    folder = tmp_path_factory.mktemp("guesser")
    corpus = [
        (f"Print {i % 4}.\n", f"```python\nprint({(i + i // 4) % 4})\n```") for i in range(960)
    ]
    tokenizer = train_tokenizer([prompt + text for prompt, text in corpus], vocabulary=100)
    model = new_model(tokenizer, seed=0)
    settings = WarmStart(problems=len(corpus), batch_size=32, warmup_steps=2)
    warm_start(model, tokenizer, corpus, settings=settings, seed=0)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    problems = (
        Problem(f"print {n}", f"Print {n}.\n", (TestCase(input="", output=f"{n}\n"),))
        for n in range(4)
    )
    write_jsonl(folder / "problems.jsonl", (problem.to_json() for problem in problems))
    return folder


def train(guesser, folder, *flags):
    settings = {
        "model": guesser / "model",
        "problems": guesser / "problems.jsonl",
        "out": folder,
        "verifier.workers": 1,
        "trainer.k": 2,
        "trainer.num_generations": 8,
        "trainer.per_device_train_batch_size": 32,
        "trainer.max_steps": 2,
        "trainer.max_completion_length": 16,
        "trainer.warmup_steps": 0,
        "trainer.logging_steps": 1,
        "trainer.save_strategy": '"no"',
    }
    given = [f"{name}={value}" for name, value in settings.items()]
    assert main(["train", "mini/train", *given, *flags, "--progress", "none"]) == 0
    return folder


def logged(folder):
    """The log of a training without what a clock decides."""
    history = read_json(folder / TRAIN_RECORD)["log_history"]
    return [
        {name: value for name, value in step.items() if not any(word in name for word in CLOCK)}
        for step in history
    ]


def test_a_training_is_the_same_with_its_programs_on_a_cluster(guesser, tmp_path):
    here = train(guesser, tmp_path / "here")
    shards = ("--cluster.address", "local", "--cluster.shards", "2")
    there = train(guesser, tmp_path / "there", *shards)
    assert logged(there) == logged(here)
    assert all(0 < step["reward"] < 1 for step in logged(here) if "reward" in step)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (here, there)]
    assert weights[0] == weights[1]
