"""What a training leaves to a cluster that runs its programs: CPU seconds on its own machine.

The built-in model is trained as in the studies, 4 prompts x 16 completions and 3 optimizer steps
per rollout batch: with the programs on this machine, and on a Ray cluster whose node stands for
another machine. Both share the same cores here, so the CPU time of the trainer with all that
it starts is compared, and not wall time. Start-up does not count: two lengths of training are run,
and their difference is divided by the rollout batches. Takes some five minutes. Needs Ray.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from cpu import watched_seconds
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.mini import MiniSettings, build_mini

LENGTHS = (9, 39)  # optimizer steps
STEPS_A_BATCH = 3
NODE = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}


def trained(
    folder: Path, out: str, steps: int, *flags: str
) -> tuple[float, list[dict[str, float]]]:
    """Return the CPU seconds of a training with all its processes, and its log."""
    settings = {
        "model": folder / "base",
        "problems": folder / "train.jsonl",
        "out": folder / out,
        "verifier.workers": 1,
        "trainer.method": "bon_loo1",
        "trainer.num_iterations": STEPS_A_BATCH,
        "trainer.max_steps": steps,
        "trainer.save_strategy": '"no"',
        "trainer.logging_steps": STEPS_A_BATCH,
    }
    given = [f"{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "maxatk", "train", "mini/train", *given, *flags]
    process = subprocess.Popen([*command, "--progress", "none"], stdout=subprocess.DEVNULL)
    used = watched_seconds(process)
    if process.returncode:
        raise SystemExit(f"a training ended with {process.returncode}")
    history = read_json(folder / out / TRAIN_RECORD)["log_history"]
    return used, history


def seconds(history: list[dict[str, float]], part: str) -> float:
    """Return the mean of a part over the rollout batches after the first."""
    found = [step[f"seconds/{part}"] for step in history if f"seconds/{part}" in step][1:]
    return sum(found) / len(found)


def main() -> None:
    if importlib.util.find_spec("ray") is None:
        print("left out: the package 'ray' is not installed here")
        return
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    places = {"this machine": (), "a cluster": ("--cluster.address", cluster.address)}
    a_batch: dict[str, float] = {}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sizes = {"train_problems": 200, "test_problems": 1, "tests": 6}
            build_mini(folder, MiniSettings(**sizes))
            for place, flags in places.items():
                runs = [trained(folder, f"{place} {n}", n, *flags) for n in LENGTHS]
                (short, _), (long, history) = runs
                a_batch[place] = (long - short) * STEPS_A_BATCH / (LENGTHS[1] - LENGTHS[0])
                wait = seconds(history, "verification")
                print(
                    f"{place}: {a_batch[place]:.3f} s of CPU a batch, waits {wait:.3f} s",
                    flush=True,
                )
    finally:
        cluster.shutdown()
    here, there = a_batch.values()
    print(f"CPU of the trainer's machine, programs elsewhere / here: {there / here:.2f}")


if __name__ == "__main__":
    main()
