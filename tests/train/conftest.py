"""A tiny real model of the built-in model, prompts, and a trainer that keeps what its loss was
given."""

import copy
import dataclasses
import functools

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM

from maxatk.mini import Noise, generate_problems
from maxatk.mini.model import new_model
from maxatk.mini.tokenizer import train_tokenizer
from maxatk.mini.warm_start import noisy_corpus
from maxatk.train import MaxAtKConfig, MaxAtKTrainer

PROMPTS = [f"order cut {word}\n1 2 > {n}\n#\n" for n, word in enumerate(["sum", "max", "len"] * 4)]

GROUP = 4


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def mini_problems():
    return list(generate_problems(24, seed=0, tests=3))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, mini_problems):
    """An untrained model: its completions are varied and most stop at different lengths."""
    folder = tmp_path_factory.mktemp("model")
    corpus = noisy_corpus(mini_problems, noise=Noise(), seed=0)
    tokenizer = train_tokenizer([p + c for p, c in corpus], vocabulary=120)
    new_model(tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def prompts(mini_problems):
    return Dataset.from_list([{"prompt": p.problem.prompt} for p in mini_problems])


def text_reward(completions, **_):
    """A reward with ties and equal groups that any text has: quarters from 0 to 1."""
    return [(len(set(text)) % 5) / 4 for text in completions]


def reward_with_gaps(completions, **_):
    """The same, and None (unscorable) for about every fifth text."""
    values = text_reward(completions)
    return [None if len(t) % 5 == 0 else v for t, v in zip(completions, values, strict=True)]


def config(folder, **changes):
    """Settings of a small run; `changes` win."""
    defaults = {
        "output_dir": str(folder),
        "k": 2,
        "num_generations": GROUP,
        "per_device_train_batch_size": 8,
        "max_completion_length": 6,
        "max_steps": 3,
        "learning_rate": 3e-2,  # large, so that ratios leave 1 within a step
        "optim": "sgd",
        "lr_scheduler_type": "constant",
        "loss_type": "dapo",
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "seed": 3,
    }
    return MaxAtKConfig(**{**defaults, **changes})


@functools.cache
def own_model(folder):
    """A model that no trainer has, read once: an oracle gives it the weights of each policy."""
    return AutoModelForCausalLM.from_pretrained(folder).eval()


@dataclasses.dataclass
class Seen:
    """One micro-batch as the loss got it, and the policy at that moment."""

    step: int
    inputs: dict
    policy: dict


class SpyTrainer(MaxAtKTrainer):
    """Keeps every rollout batch with its policy, and every micro-batch with its policy."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.generations = []
        self.seen = []

    def _generate_and_score_completions(self, inputs):
        policy = copy.deepcopy(self.model.state_dict())
        output = super()._generate_and_score_completions(inputs)
        kept = {key: value.clone() for key, value in output.items()}
        self.generations.append((policy, kept, self._last_rewards.clone()))
        return output

    def _compute_loss(self, model, inputs):
        policy = copy.deepcopy(self.model.state_dict())
        loss = super()._compute_loss(model, inputs)
        kept = {key: value.clone() for key, value in inputs.items()}
        self.seen.append(Seen(self.state.global_step, kept, policy))
        return loss


@pytest.fixture
def make_trainer(model_folder, prompts, tmp_path):
    def make(reward=text_reward, cls=SpyTrainer, **changes):
        return cls(
            model=str(model_folder),
            reward_funcs=reward,
            args=config(tmp_path, **changes),
            train_dataset=prompts,
        )

    return make
