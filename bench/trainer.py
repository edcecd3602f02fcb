"""Time and memory of training against TRL's GRPOTrainer: same model, seed, batch and rewards.

The verifier is replaced by a cheap reward function and completions have one length, so that what is
left is the trainer. Every round runs each variant in a process of its own: a trainer made after
others in the same process was up to 6% slower than the same trainer before them. A row compares CPU
seconds per optimizer step in one thread, the first generation left out: the fastest step of all
rounds at each place in the use of a generation, averaged over the places, because a busy machine
only ever makes a step slower. The memory of a variant is the peak of a process of its own beyond
what it holds before training, for the larger model; its target is that of TRL and 3%. Exits with 1
where a target is missed.

    python bench/trainer.py [--rounds 5] [--model mini|larger] [--profile VARIANT]
"""

import os

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import argparse
import cProfile
import dataclasses
import itertools
import json
import logging
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from maxatk.mini import Noise, generate_problems
from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer
from maxatk.train import MaxAtKConfig, MaxAtKTrainer

PROMPTS = 64
GROUP = 16
USES = WARM_UP = 3  # uses of a generation, and as many steps that are not counted
WHOLE = {"per_device_train_batch_size": 64}
SPLIT = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 8}
MEMORY_TARGET = 1.03
WEIGHTS_TARGET = 1e-5  # a tenth of what Adam moves a weight in a step: it amplifies rounding
ON_POLICY = ("bon_max_mean", "bon_max_second", "bon_loo1", "bon_mean")


@dataclasses.dataclass(frozen=True)
class Variant:
    """A trainer of ours (with a method) or TRL's (without), and what it is compared with."""

    method: str | None
    settings: dict
    peer: str | None = None
    target: float = 1.0


VARIANTS = {
    "TRL, 1 step": Variant(None, WHOLE),
    "grpo, 1 step": Variant("grpo", WHOLE, "TRL, 1 step", 1.02),
    **{f"{m}, 1 step": Variant(m, WHOLE, "TRL, 1 step", 1.03) for m in ON_POLICY},
    "TRL, 3 steps": Variant(None, {**WHOLE, "num_iterations": 3}),
    "exact, 3 steps, whole groups": Variant(
        "bon_off_policy_exact", {**WHOLE, "num_iterations": 3}, "TRL, 3 steps", 1.05
    ),
    "exact, 3 steps, shared prompts": Variant(
        "bon_off_policy_exact",
        {**WHOLE, "num_iterations": 3, "share_prompts": True},
        "TRL, 3 steps",
        1.0,
    ),
    "TRL, 3 steps, accumulated": Variant(None, {**SPLIT, "num_iterations": 3}),
    "exact, 3 steps, extra forward": Variant(
        "bon_off_policy_exact", {**SPLIT, "num_iterations": 3}, "TRL, 3 steps, accumulated", 1.25
    ),
}


class Times(TrainerCallback):
    """The CPU time of this process at the end of every optimizer step."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        self.ends.append(time.process_time())


def reward(completions, **_):
    return [(len(set(text)) % 5) / 4 for text in completions]


def make_model(name: str, folder: Path) -> None:
    problems = list(generate_problems(PROMPTS, seed=0, tests=3))
    corpus = noisy_corpus(problems, noise=Noise(), seed=0)
    tokenizer = train_tokenizer([p + c for p, c in corpus], vocabulary=120)
    model = new_model(tokenizer, seed=0)
    if name == "larger":
        config = model.config.to_dict()
        config |= {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 6}
        config |= {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32}
        config |= {"layer_types": None, "max_window_layers": 6}
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(Qwen2Config(**config))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def trainer_of(variant: Variant, folder: Path, steps: int):
    settings = {
        "output_dir": str(folder / "out"),
        "num_generations": GROUP,
        "max_completion_length": 32,
        # A model that never stops: every batch has one length, whatever was learnt.
        "generation_kwargs": {"min_new_tokens": 32},
        "max_steps": steps,
        "learning_rate": 1e-4,
        "loss_type": "dapo",
        "use_cpu": True,
        "bf16": False,
        "disable_dropout": True,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 10,
        "disable_tqdm": True,
        "seed": 0,
        **variant.settings,
    }
    ours = variant.method is not None
    of_objective = {"method": variant.method, "k": 8, "rollouts": "trl"}
    args = MaxAtKConfig(**of_objective, **settings) if ours else GRPOConfig(**settings)
    problems = generate_problems(PROMPTS, seed=0, tests=3)
    trainer = (MaxAtKTrainer if ours else GRPOTrainer)(
        model=str(folder),
        reward_funcs=reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": p.problem.prompt} for p in problems]),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def seconds_of_steps(trainer) -> list[float]:
    """Return the seconds of every step after the first generation's."""
    times = Times()
    trainer.add_callback(times)
    trainer.train()
    ends = times.ends[WARM_UP - 1 :]
    return [after - before for before, after in itertools.pairwise(ends)]


def undisturbed(rounds: list[list[float]]) -> float:
    """Return the seconds of a step: the fastest at each place of a cycle, averaged."""
    fastest = [min(step for steps in rounds for step in steps[turn::USES]) for turn in range(USES)]
    return statistics.mean(fastest)


def in_a_process(*arguments: str):
    """Return what this script prints last, as JSON, in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def memory(name: str, folder: Path) -> float:
    """Return the MiB that the training of a variant adds to its process at the peak."""
    return in_a_process("--memory", name, str(folder))


def print_times(name: str, folder: Path, steps: int) -> None:
    trainer = trainer_of(VARIANTS[name], folder, steps)
    seconds = seconds_of_steps(trainer)
    torch.save(trainer.model.state_dict(), folder / f"{name}.pt")
    print(json.dumps(seconds))


def print_memory(name: str, folder: Path) -> None:
    trainer = trainer_of(VARIANTS[name], folder, 6)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
    before = kibibytes("VmHWM")
    trainer.train()
    print((kibibytes("VmHWM") - before) / 1024)


def kibibytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def profile(name: str, folder: Path) -> None:
    trainer = trainer_of(VARIANTS[name], folder, 12)
    profiler = cProfile.Profile()
    profiler.runcall(trainer.train)
    pstats.Stats(profiler).sort_stats("cumulative").print_stats("maxatk|trl", 30)


def measure(folder: Path, names: list[str], *, rounds: int, steps: int) -> tuple[dict, dict]:
    """Return the seconds of the steps of every round, and the weights after the last round."""
    times = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            times[name].append(in_a_process("--times", name, str(folder), "--steps", str(steps)))
    return times, {name: torch.load(folder / f"{name}.pt") for name in names}


def compare(model: str, *, rounds: int, steps: int) -> list[str]:
    """Print the rows of one model and return the targets that were missed."""
    missed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(model, folder)
        slow = model == "larger"  # one on-policy method stands for all: they differ in NumPy alone
        names = [n for n in VARIANTS if not (slow and n.startswith(("bon_max", "bon_mean")))]
        times, weights = measure(folder, names, rounds=rounds, steps=steps)
        count = sum(weight.numel() for weight in weights["TRL, 1 step"].values())
        print(f"\n{model} model, {count:,} weights, {rounds} rounds of {steps} steps")
        print(f"{'variant':32} {'ms a step':>9} {'TRL':>8} {'ratio':>7} {'target':>7} {'MiB':>7}")
        print(f"{'':62} {'':7} TRL's")
        for variant in names:
            settings = VARIANTS[variant]
            if settings.peer is None:
                continue
            ours = undisturbed(times[variant])
            peer = undisturbed(times[settings.peer])
            print(
                f"{variant:32} {1e3 * ours:9.1f} {1e3 * peer:8.1f} {ours / peer:7.3f} "
                f"{settings.target:7.2f}",
                end=" ",
                flush=True,
            )
            if ours / peer > settings.target:
                missed.append(f"{model}, {variant}: {ours / peer:.3f}")
            if slow and variant.startswith(("grpo", "exact")):
                ours = memory(variant, folder)
                peer = memory(settings.peer, folder)
                print(f"{ours:7.0f} {peer:7.0f}", end="", flush=True)
                if ours / peer > MEMORY_TARGET:
                    missed.append(f"{model}, {variant}, memory: {ours / peer:.3f}")
            print()
        ours = weights["grpo, 1 step"]
        theirs = weights["TRL, 1 step"]
        gap = max(float((ours[k] - theirs[k]).abs().max()) for k in theirs)
        print(f"weights after {steps} steps, grpo against TRL: largest difference {gap:.1e}")
        if gap > WEIGHTS_TARGET:
            missed.append(f"{model}: weights differ by {gap:.1e}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--model", choices=["mini", "larger"])
    parser.add_argument("--profile", choices=VARIANTS)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--times", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if chosen.memory:
        print_memory(chosen.memory[0], Path(chosen.memory[1]))
        return 0
    if chosen.times:
        print_times(chosen.times[0], Path(chosen.times[1]), chosen.steps)
        return 0
    if chosen.profile:
        with tempfile.TemporaryDirectory() as folder:
            make_model(chosen.model or "mini", Path(folder))
            profile(chosen.profile, Path(folder))
        return 0
    models = [chosen.model] if chosen.model else ["mini", "larger"]
    missed = [line for m in models for line in compare(m, rounds=chosen.rounds, steps=chosen.steps)]
    print("\n" + ("missed: " + "; ".join(missed) if missed else "all targets met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
