"""One training step (sampling, verification, update) with this package's loop against TRL's.

The same trainer, model, seed and reward in both; only `rollouts` differs. The built-in model is
trained as in the demo: 4 prompts x 16 completions of up to 32 tokens, 3 optimizer steps per rollout
batch, `share_prompts`, programs verified. A pretrained model is trained with LoRA (r 16 on all
linear layers) on bfloat16 weights, 4 prompts x 8 completions of up to 64 tokens, on prompts from a
file or made up. Every round runs each variant in a process of its own, one thread, and counts the
mean of its rollout batches without the first; the fastest round counts, since a busy machine only
ever makes it slower. Seconds are those of the CPU, but for verification, which runs in processes of
its own: wall seconds.

    python bench/rollouts.py [--rounds 3] [--batches 9] [MODEL [PROBLEMS.jsonl]]
"""

import os

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import argparse
import contextlib
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from transformers import PrinterCallback

from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.models import load_tokenizer
from maxatk.problems import load_problems
from maxatk.rewards import load_reward
from maxatk.train import MaxAtKConfig, MaxAtKTrainer
from maxatk.train.run import to_dataset
from maxatk.verifier import VerifierSettings

PHASES = ("rollout", "verification", "update")
MINI = {
    "k": 8,
    "num_generations": 16,
    "per_device_train_batch_size": 64,
    "num_iterations": 3,
    "max_completion_length": 32,
    "learning_rate": 1.5e-4,
    "share_prompts": True,
}
PRETRAINED = {
    "k": 4,
    "num_generations": 8,
    "per_device_train_batch_size": 32,
    "num_iterations": 1,
    "max_completion_length": 64,
    "learning_rate": 2e-4,
    "share_prompts": True,
    "temperature": 0.6,
    "model_init_kwargs": {"dtype": "bfloat16"},
}


class Clock:
    """CPU seconds of the phases of every rollout batch, in the place of the trainer's own clock."""

    def __init__(self):
        self.total = 0.0
        self.seconds = {name: [] for name in PHASES}

    @contextlib.contextmanager
    def measure(self, name, metrics):  # noqa: ARG002
        now = time.perf_counter if name == "verification" else time.process_time
        start, before = now(), self.total
        yield
        inner = 0.0 if name == "verification" else self.total - before
        spent = now() - start - inner
        if name != "verification":  # its waiting costs this process nothing
            self.total += spent
        if name in self.seconds:
            self.seconds[name].append(spent)


class Timed(MaxAtKTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._clock = Clock()

    def training_step(self, *args, **kwargs):
        start, others = time.process_time(), self._clock.total
        loss = super().training_step(*args, **kwargs)
        spent = time.process_time() - start - (self._clock.total - others)
        self._clock.seconds["update"].append(spent)
        return loss


def measure(model: str, problems: str, rollouts: str, *, batches: int, mini: bool) -> dict:
    """Return the mean seconds of each phase of a rollout batch."""
    chosen = MINI if mini else PRETRAINED
    tokenizer = load_tokenizer(model)
    tokenizer.padding_side = "left"
    with (
        tempfile.TemporaryDirectory() as out,
        VerifierSettings(workers=1, time_limit=1.0).open() as verifier,
    ):
        adapter = None
        if not mini:
            from peft import LoraConfig

            adapter = LoraConfig(
                r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
            )
        trainer = Timed(
            model=model,
            reward_funcs=load_reward("continuous", verifier=verifier),
            args=MaxAtKConfig(
                output_dir=out,
                rollouts=rollouts,
                max_steps=batches * chosen["num_iterations"],
                gradient_checkpointing=False,
                lr_scheduler_type="constant",
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_steps=1000,
                seed=0,
                **chosen,
            ),
            processing_class=tokenizer,
            train_dataset=to_dataset(
                load_problems(problems), chat=tokenizer.chat_template is not None
            ),
            peft_config=adapter,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    seconds = trainer._clock.seconds
    uses = chosen["num_iterations"]
    steps = seconds["update"]
    seconds["update"] = [sum(steps[i : i + uses]) for i in range(0, len(steps), uses)]
    assert trainer.rollouts == rollouts
    return {**{name: statistics.mean(seconds[name][1:]) for name in PHASES}}


def in_a_process(*arguments: str) -> dict:
    command = [sys.executable, __file__, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(found.stderr)
    return json.loads(found.stdout.strip().splitlines()[-1])


def compare(model: str, problems: str, *, rounds: int, batches: int, mini: bool) -> None:
    rows = {name: [] for name in ("own", "trl")}
    for _ in range(rounds):
        for name in rows:
            arguments = ["--one", name, "--batches", str(batches), model, problems]
            rows[name].append(in_a_process(*arguments, *(["--mini"] if mini else [])))
    best = {
        name: {phase: min(row[phase] for row in found) for phase in PHASES}
        for name, found in rows.items()
    }
    print(f"\n{'built-in model' if mini else model}: seconds of a rollout batch and its steps")
    print(f"{'rollouts':10}" + "".join(f"{phase:>14}" for phase in PHASES) + f"{'sum':>10}")
    for name, found in best.items():
        row = "".join(f"{found[phase]:14.3f}" for phase in PHASES)
        print(f"{name:10}{row}{sum(found.values()):10.3f}")
    own, trl = best["own"], best["trl"]
    print(
        f"own / trl: sampling {own['rollout'] / trl['rollout']:.2f}, "
        f"all {sum(own.values()) / sum(trl.values()):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("problems", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--one", choices=["own", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--mini", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if chosen.one:
        found = measure(
            chosen.model, chosen.problems, chosen.one, batches=chosen.batches, mini=chosen.mini
        )
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        made = MiniSettings(
            train_problems=64, test_problems=8, tests=4, warm_start=WarmStart(problems=3200)
        )
        build_mini(Path(folder), made)
        problems = chosen.problems or f"{folder}/train.jsonl"
        model = chosen.model or f"{folder}/base"
        compare(
            model, problems, rounds=chosen.rounds, batches=chosen.batches, mini=not chosen.model
        )


if __name__ == "__main__":
    main()
