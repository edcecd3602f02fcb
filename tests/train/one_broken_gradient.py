"""Train in one of two processes, of which the second has a gradient of NaN at step 2.

Started by `test_finite_gradients.py` through torchrun: one_broken_gradient.py MODEL OUT. Leaves the
weights after each step in `OUT/rank-R.pt`.
"""

import math
import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import TrainerCallback

from maxatk.train import MaxAtKTrainer
from train.conftest import PROMPTS, config, text_reward
from train.weights import WeightsAfterSteps


class BreakSecondStep(TrainerCallback):
    """Makes a gradient NaN in one process, once the gradients have been averaged over all."""

    def __init__(self, process):
        self.process = process

    def on_pre_optimizer_step(self, args, state, control, *, model, **_):
        if state.global_step == 1 and args.process_index == self.process:
            next(model.parameters()).grad.fill_(math.nan)


def main(model: str, out: Path) -> None:
    torch.set_num_threads(1)
    trainer = MaxAtKTrainer(
        model=model,
        reward_funcs=text_reward,
        args=config(out, ddp_backend="gloo", max_steps=3),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
    )
    after = WeightsAfterSteps()
    trainer.add_callback(after)
    trainer.callback_handler.callbacks.insert(0, BreakSecondStep(process=1))
    trainer.train()
    torch.save(after.weights, out / f"rank-{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
