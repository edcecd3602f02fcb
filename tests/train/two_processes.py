"""Train in one of two processes and leave what its loss was given in `OUT/rank-R.pt`.

Started by `test_two_processes.py` through torchrun: two_processes.py MODEL OUT
"""

import dataclasses
import sys
from pathlib import Path

import torch
from datasets import Dataset

from train.conftest import SpyTrainer, config, text_reward

PROMPTS = [f"order cut {word}\n1 2 > {n}\n#\n" for n, word in enumerate(["sum", "max", "len"] * 4)]


def main(model: str, out: Path) -> None:
    torch.set_num_threads(1)
    trainer = SpyTrainer(
        model=model,
        reward_funcs=text_reward,
        args=config(
            out,
            method="bon_off_policy_exact",
            per_device_train_batch_size=4,
            steps_per_generation=2,
            gradient_accumulation_steps=1,
            num_iterations=2,
            max_steps=4,
            ddp_backend="gloo",
        ),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
    )
    trainer.train()
    kept = {
        "generations": trainer.generations,
        "seen": [dataclasses.asdict(seen) for seen in trainer.seen],
    }
    torch.save(kept, out / f"rank-{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
