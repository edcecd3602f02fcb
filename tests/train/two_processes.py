"""Train in one of two processes and leave what its loss was given in `OUT/rank-R.pt`.

Started by `test_two_processes.py` through torchrun and accelerate: two_processes.py MODEL OUT ROWS,
where ROWS is the size of a micro-batch of one process; a generation has 8 rows in each.
"""

import dataclasses
import sys
from pathlib import Path

import torch
from datasets import Dataset

from train.conftest import PROMPTS, SpyTrainer, config, text_reward


def main(model: str, out: Path, rows: int) -> None:
    torch.set_num_threads(1)
    trainer = SpyTrainer(
        model=model,
        reward_funcs=text_reward,
        args=config(
            out,
            method="bon_off_policy_exact",
            per_device_train_batch_size=rows,
            steps_per_generation=8 // rows,
            gradient_accumulation_steps=1,
            num_iterations=rows // 2,
            share_prompts=rows > 2,
            skip_zero_advantages=True,
            max_steps=4,
            ddp_backend="gloo",
        ),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
    )
    trainer.train()
    record = {
        "whole_groups": trainer._rollout.whole,
        "log": [row for row in trainer.state.log_history if "loss" in row],
        "generations": trainer.generations,
        "seen": [dataclasses.asdict(batch) for batch in trainer.seen],
    }
    torch.save(record, out / f"rank-{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
