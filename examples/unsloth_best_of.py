"""Unsloth: max@k of a reward function in TRL's GRPOTrainer as Unsloth patches it.

`python unsloth_best_of.py`; the same lines, without the first import, serve TRL of any version.

Written against Unsloth 015bdef, and tested on TRL without it.
"""

from unsloth import FastLanguageModel  # isort: skip  # before trl, which it patches
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from maxatk import best_of


def digits(completions, **_):
    """Reward the share of digits among the characters."""
    return [sum(map(str.isdigit, text)) / max(len(text), 1) for text in completions]


def main(name="unsloth/Qwen2.5-0.5B-Instruct", prompts=("Count: ", "Pi is "), **settings):
    model, tokenizer = FastLanguageModel.from_pretrained(name, max_seq_length=512)
    model = FastLanguageModel.get_peft_model(model)
    args = GRPOConfig(**{"num_generations": 8, "scale_rewards": False, **settings})
    data = Dataset.from_dict({"prompt": prompts})
    reward = best_of(digits, k=4)
    GRPOTrainer(model, reward, args, data, processing_class=tokenizer).train()


if __name__ == "__main__":
    main()
