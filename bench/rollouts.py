"""One training step (sampling, verification, update) with this package's loop against TRL's.

The same trainer, model, seed and reward in both; only `rollouts` differs. The built-in model is
trained as in the studies: 4 prompts x 16 completions of up to 32 tokens, 3 optimizer steps per
rollout batch, `share_prompts`, programs verified. A pretrained model, if its folder is given, is
trained with LoRA (r 16 on all linear layers) on bfloat16 weights, 4 prompts x 8 completions of up
to 64 tokens, on prompts from a file or on those of the built-in model.

The variants take turns, each in a process of its own with one thread. Each rollout batch is the
same in every round, so the fastest round of it counts, since a busy machine only ever makes it
slower; the first one is left out. Seconds are wall seconds: that is what an overlap of sampling and
verification saves. The CPU seconds of the trainer's process stand beside them, for a busy machine.
Takes some 6 minutes with a model of 135 million weights on two cores with nothing else to do.

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
from maxatk.train.clock import Clock
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


class KeepingClock(Clock):
    """The trainer's own clock, which keeps what it measured in every rollout batch."""

    def __init__(self):
        super().__init__()
        self.seconds = {name: [] for name in (*PHASES, "cpu")}

    @contextlib.contextmanager
    def measure(self, name, metrics):  # noqa: ARG002
        measured = {f"seconds/{name}": []}
        with super().measure(name, measured):
            yield
        self.seconds.setdefault(name, []).extend(measured[f"seconds/{name}"])


class Timed(MaxAtKTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._clock = KeepingClock()

    def training_step(self, *args, **kwargs):
        start = time.perf_counter()
        cpu = time.process_time()
        other_phases = self._clock.total
        loss = super().training_step(*args, **kwargs)
        spent = time.perf_counter() - start - (self._clock.total - other_phases)
        self._clock.seconds["update"].append(spent)
        self._clock.seconds["cpu"].append(time.process_time() - cpu)
        return loss


def measure(model: str, problems: str, rollouts: str, *, batches: int, mini: bool) -> dict:
    """Return the seconds of each phase of every rollout batch but the first."""
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
                use_cpu=not torch.cuda.is_available(),
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
    for name in ("update", "cpu"):
        steps = seconds[name]
        seconds[name] = [sum(steps[i : i + uses]) for i in range(0, len(steps), uses)]
    assert trainer.rollouts == rollouts
    return {name: seconds[name][1:] for name in (*PHASES, "cpu")}


def in_a_process(*arguments: str) -> dict:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(model: str, problems: str, *, rounds: int, batches: int, mini: bool) -> None:
    rows = {name: [] for name in ("own", "trl")}
    for _ in range(rounds):
        for name in rows:
            arguments = ["--one", name, "--batches", str(batches), model, problems]
            rows[name].append(in_a_process(*arguments, *(["--mini"] if mini else [])))
    best = {name: undisturbed(seconds) for name, seconds in rows.items()}
    print(f"\n{'built-in model' if mini else model}: seconds of a rollout batch and its steps")
    print(f"{'rollouts':10}" + "".join(f"{name:>14}" for name in (*PHASES, "all", "cpu")))
    for name, seconds in best.items():
        print(f"{name:10}" + "".join(f"{seconds[key]:14.3f}" for key in (*PHASES, "all", "cpu")))
    ratio = {key: best["own"][key] / best["trl"][key] for key in ("rollout", "all", "cpu")}
    print(
        f"own / trl: sampling {ratio['rollout']:.2f}, all {ratio['all']:.2f}, "
        f"CPU of the trainer {ratio['cpu']:.2f}",
        flush=True,
    )


def undisturbed(rounds: list[dict]) -> dict:
    """Return the mean seconds of the phases, and of all, of the fastest round of each batch."""
    batches = range(len(rounds[0]["cpu"]))
    means = {
        key: statistics.mean(min(row[key][batch] for row in rounds) for batch in batches)
        for key in (*PHASES, "cpu")
    }
    means["all"] = statistics.mean(
        min(sum(row[phase][batch] for phase in PHASES) for row in rounds) for batch in batches
    )
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("problems", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=9, help="3 at most of a given model")
    parser.add_argument("--one", choices=["own", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--mini", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if chosen.one:
        seconds = measure(
            chosen.model, chosen.problems, chosen.one, batches=chosen.batches, mini=chosen.mini
        )
        print(json.dumps(seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        made = MiniSettings(
            train_problems=64, test_problems=8, tests=4, warm_start=WarmStart(problems=3200)
        )
        build_mini(Path(folder), made)
        problems = f"{folder}/train.jsonl"
        options = {"rounds": chosen.rounds, "batches": chosen.batches}
        compare(f"{folder}/base", problems, **options, mini=True)
        if chosen.model:
            options = {"rounds": 1, "batches": min(chosen.batches, 3)}
            compare(chosen.model, chosen.problems or problems, **options, mini=False)


if __name__ == "__main__":
    main()
