"""A tiny real model of the built-in model, prompts, and a trainer that keeps what its loss was
given."""

import copy
import dataclasses
import functools
import shutil

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM

from maxatk.jsonl import write_jsonl
from maxatk.mini import Noise, generate_problems
from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer
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


@pytest.fixture
def broken_weights(model_folder, tmp_path):
    """The model with weights that cannot be loaded: whoever tries to fails."""
    folder = shutil.copytree(model_folder, tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"no weights")
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


@pytest.fixture
def own_rewards(tmp_path):
    """A file with two reward functions, for processes too: one has a signal and one has none."""
    path = tmp_path / "own.py"
    path.write_text(
        "def letters(completions, **_):\n    return [len(set(text)) / 99 for text in completions]\n"
        "def same(completions, **_):\n    return [0.5] * len(completions)\n"
    )
    return path


TRAINER = {
    "k": 2,
    "num_generations": GROUP,
    "per_device_train_batch_size": 8,
    "max_completion_length": 6,
    "max_steps": 2,
    "use_cpu": True,
    "report_to": "none",
    "logging_steps": 1,
}
"""The trainer's settings in a small recipe."""


@pytest.fixture
def toy_recipe(tmp_path, model_folder, mini_problems, own_rewards):
    """A small recipe as a mapping, whose reward has a signal; `changes` are of its trainer."""
    problems = tmp_path / "problems.jsonl"
    write_jsonl(problems, (p.problem.to_json() for p in mini_problems))

    def make(**changes):
        return {
            "model": str(model_folder),
            "problems": str(problems),
            "out": str(tmp_path / "out"),
            "reward": f"{own_rewards}:letters",
            "verifier": {"workers": 1, "time_limit": 1},
            "trainer": {**TRAINER, **changes},
        }

    return make


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
    """A model that no trainer has, read once for all oracles."""
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def with_weights(folder, policy):
    """The model of the oracles with the weights of a policy, until the next one asks for it."""
    own_model(folder).load_state_dict(policy)
    return own_model(folder)


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
        copies = {key: value.clone() for key, value in output.items()}
        rewards = torch.from_numpy(self._rollout.rewards).reshape(-1) if self.model.training else []
        self.generations.append((policy, copies, rewards))
        return output

    def _compute_loss(self, model, inputs):
        policy = copy.deepcopy(self.model.state_dict())
        loss = super()._compute_loss(model, inputs)
        copies = {key: value.clone() for key, value in inputs.items()}
        self.seen.append(Seen(self.state.global_step, copies, policy))
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
