"""What the record of a training, groups.jsonl, costs: steps with it and without it in one run.

The trainer, model and reward are those of bench/trainer.py: 64 completions in groups of 16 a step,
and all groups are recorded. Steps with and without the record take turns, so that both see the same
machine. Compared are medians of CPU seconds of this process in one thread, for the built-in model:
steps of a larger one take longer, and the record is the same. Exits with 1 where the ratio is above
its target.

    python bench/group_log.py [STEPS]
"""

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import TrainerCallback

from trainer import WHOLE, Variant, make_model, trainer_of

TARGET = 1.02


class Turns(TrainerCallback):
    """Records every other step, and takes the CPU time of this process between them."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.add = trainer._record_groups
        self.ends = []

    def on_step_begin(self, args, state, control, **_):  # noqa: ARG002
        on = state.global_step % 2
        self.trainer._record_groups = self.add if on else lambda *_, **__: None
        self.ends.append(time.process_time())


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 42
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model("mini", folder)
        trainer = trainer_of(Variant("bon_loo1", {**WHOLE, "log_groups": 8}), folder, steps)
        turns = Turns(trainer)
        trainer.add_callback(turns)
        trainer.train()
    seconds = [after - before for before, after in itertools.pairwise(turns.ends)][2:]
    without = statistics.median(seconds[::2])
    recorded = statistics.median(seconds[1::2])
    print(f"a step: {1e3 * recorded:.1f} ms with the record, {1e3 * without:.1f} ms without")
    print(f"ratio {recorded / without:.3f}, target {TARGET}")
    return int(recorded / without > TARGET)


if __name__ == "__main__":
    sys.exit(main())
