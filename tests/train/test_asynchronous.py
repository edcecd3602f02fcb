"""Asynchronous training: its gradient against enumeration, a real training, and refusals."""

import asyncio
import functools
import itertools
import json
import math
import multiprocessing
import pickle
import types

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

import maxatk
from maxatk.errors import InvalidValueError
from maxatk.training import Objective
from train.conftest import text_reward
from train.enumerated import (
    gradient_of_max_at_k,
    reward_of,
    sequences,
    token_logps,
    write_model,
)

pytest.importorskip("trl.experimental.async_grpo.packing", reason="needs TRL 1.16")
pytest.importorskip("aiohttp", reason="TRL's worker needs aiohttp")

from trl.chat_template_utils import qwen3_chat_template
from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    TrainingSequence,
)

from maxatk.train.asynchronous import (
    MaxAtKAsyncConfig,
    MaxAtKAsyncTrainer,
    MaxAtKRolloutLoop,
    WholeGroups,
)
from maxatk.train.programs import Programs
from train.asynchronous_stand_ins import (
    RESPONSE,
    TEMPLATE,
    NoTransfer,
    Prepared,
    Server,
    without_gpu,
)
from train.weights import are_equal, break_gradients, copied

PROMPT = [2, 3]


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    without_gpu(monkeypatch)


@pytest.fixture
def tiny(tmp_path):
    """A policy all of whose completions can be enumerated, with a chat template."""
    return with_templates(write_model(tmp_path / "model"), tmp_path / "model")


def with_templates(source, folder):
    """A folder with the tokenizer of a model that answers to conversations."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = TEMPLATE
    tokenizer.response_template = RESPONSE
    tokenizer.save_pretrained(folder)
    return str(folder)


def settings(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "k": 2,
        "num_generations": 3,
        "per_device_train_batch_size": 3,
        "max_steps": 1,
        "learning_rate": 0.0,
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return MaxAtKAsyncConfig(**{**defaults, **changes})


def rewards_of_ids(completion_ids, **_):
    return [reward_of(tuple(ids)) for ids in completion_ids]


def a_loop(folder, config, reward=rewards_of_ids):
    """TRL's loop with this package's advantages, as its process makes it."""
    context = multiprocessing.get_context("spawn")
    return MaxAtKRolloutLoop(
        objective=config.objective,
        model_name=folder,
        dataset=Dataset.from_list([{"prompt": []}]),
        reward_funcs=[reward],
        processing_class=AutoTokenizer.from_pretrained(folder),
        eos_token_ids=[1],
        num_generations=config.num_generations,
        rollout_buffer=None,
        model_version_value=context.Value("i", 0),
        heartbeat_value=None,
        failed_event=None,
        exception_info_queue=None,
        metrics_queue=None,
    )


def group_of(completions, logps, *, group_id, parts=1):
    """A group as TRL's loop gathers it; every completion in so many rows of the same tokens."""
    n = len(completions)

    def rows(ids, logps):
        whole = [*PROMPT, *ids]
        for part in range(parts):
            mask = [0, 0, *(int(place % parts == part) for place in range(len(ids)))]
            probabilities = [p * m for p, m in zip([0.0, 0.0, *logps], mask, strict=True)]
            yield TrainingSequence(whole, mask, probabilities, f"{group_id}")

    return RolloutGroup(
        prompts=[[]] * n,
        reward_kwargs={},
        completions=[[{"role": "assistant", "content": str(ids)}] for ids in completions],
        completions_ids=[list(ids) for ids in completions],
        completions_sequences=[list(rows(*pair)) for pair in zip(completions, logps, strict=True)],
        tool_call_counts=[0] * n,
        tool_failure_counts=[0] * n,
        model_version=0,
        group_id=group_id,
        env_rewards=[None] * n,
        rollout_rewards=[None] * n,
    )


def trainer_on(rows, folder, config, cls=MaxAtKAsyncTrainer):
    """A trainer whose worker has sampled these rows, by the policy of a folder."""
    return cls(
        model=folder,
        reward_funcs=rewards_of_ids,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": []}]),
        rollout_worker=Prepared(rows),
        weight_transfer=NoTransfer(),
    )


def older(folder, noise):
    """The policy of the server, which is not that of the trainer."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += noise * torch.randn(weight.shape, generator=generator)
    return model


class Weighed(MaxAtKAsyncTrainer):
    """Weighs each micro-batch, which is one group, by its probability at sampling."""

    weights = ()
    met = 0

    def compute_loss(self, *args, **kwargs):
        loss = super().compute_loss(*args, **kwargs) * self.weights[self.met]
        self.met += 1
        return loss

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        grads = [weight.grad.flatten() for weight in self.model.parameters()]
        self.gradient = torch.cat(grads).double().numpy().copy()
        return loss


CASES = {
    "own ratio by the surrogate": {"form": "ppo", "length": 1},
    "own ratio in the weight": {"form": "reinforce", "length": 1},
    "joint ratios of several tokens": {"form": "reinforce", "length": 2, "n": 2},
    "a conversation in two rows": {"form": "reinforce", "length": 2, "n": 2, "parts": 2},
}
# Groups of two tokens are many.
CASES_OF_TESTS = [
    pytest.param(case, id=name, marks=[pytest.mark.long] if case["length"] > 1 else [])
    for name, case in CASES.items()
]


def expected_gradient(folder, tmp_path, *, form, length, n=3, parts=1, method=None):
    """The trainer's mean gradient over every group that an older policy samples."""
    every = sequences(length)
    groups = list(itertools.product(range(len(every)), repeat=n))
    method = method or {"credit": "max_at_k", "baseline": "none", "correction": "exact"}
    config = settings(
        tmp_path,
        method=method,
        form=form,
        delta_clamp=None,
        epsilon=1e9,  # the clip of the surrogate is none of the estimator's business
        num_generations=n,
        per_device_train_batch_size=n,
        gradient_accumulation_steps=len(groups),
    )
    with torch.no_grad():
        sampled = token_logps(older(folder, noise=0.1), length)
    loop = a_loop(folder, config)
    rows = []
    for number, group in enumerate(groups):
        completions = [every[place] for place in group]
        rollouts = group_of(
            completions, sampled[list(group)].tolist(), group_id=number, parts=parts
        )
        rows += asyncio.run(loop._score_group(rollouts))
    trainer = trainer_on(rows, folder, config, cls=Weighed)
    # TRL's mean over tokens, and over the groups, is undone.
    share = sampled.double().sum(1).exp()[torch.tensor(groups)].prod(1)
    trainer.weights = share * len(groups) * length
    trainer.train()
    return -trainer.gradient, trainer


@pytest.mark.parametrize("case", CASES_OF_TESTS)
def test_the_gradient_of_stale_groups_is_that_of_max_at_k(tiny, tmp_path, case):
    gradient, trainer = expected_gradient(tiny, tmp_path, **case)
    policy = trainer.model.state_dict()
    exact = gradient_of_max_at_k(tiny, policy, length=case["length"], k=2)
    assert np.abs(exact).max() > 0.01
    np.testing.assert_allclose(gradient, exact, atol=1e-5)


def test_without_the_correction_the_gradient_is_another_one(tiny, tmp_path):
    method = {"credit": "max_at_k", "baseline": "none"}
    case = CASES["own ratio in the weight"]
    gradient, trainer = expected_gradient(tiny, tmp_path, **{**case, "method": method})
    exact = gradient_of_max_at_k(tiny, trainer.model.state_dict(), length=1, k=2)
    assert np.abs(gradient - exact).max() > 1e-3


def test_a_gradient_of_nan_moves_no_weight(tiny, tmp_path):
    config = settings(tmp_path, method="bon_loo1", learning_rate=0.1)
    completions = [(2, 1), (0, 3), (1, 1)]
    group = group_of(completions, [[-1.0, -1.0]] * 3, group_id=0)
    trainer = trainer_on(asyncio.run(a_loop(tiny, config)._score_group(group)), tiny, config)
    before = copied(trainer.model)
    break_gradients(trainer.model, math.nan)
    with pytest.warns(UserWarning, match="the gradient of step 1 is NaN"):
        trainer.train()
    assert are_equal(trainer.model.state_dict(), before)


def test_a_group_gets_the_advantages_of_its_method(tiny, tmp_path):
    config = settings(tmp_path, method="bon_loo1", num_generations=4)
    completions = [(2, 1), (0, 3), (1, 1), (0, 0)]
    logps = [[-1.0, -1.0]] * 4
    rows = asyncio.run(a_loop(tiny, config)._score_group(group_of(completions, logps, group_id=0)))
    rewards = [[reward_of(c) for c in completions]]
    wanted = 4 * maxatk.advantages(rewards, "bon_loo1", 2)[0]
    np.testing.assert_allclose([row.advantage for row in rows], wanted, atol=1e-12)
    assert rows[0].metrics["max@2"] == pytest.approx(maxatk.max_at_k(rewards, 2)[0])
    assert not [name for name in rows[0].metrics if name.startswith("maxatk/")]
    # A group that is scored by itself does not know what others answer.
    assert "completions/rewarded_elsewhere" not in rows[0].metrics


def test_conversations_of_more_rows_count_no_more_in_the_log(tiny, tmp_path):
    config = settings(tmp_path, num_generations=2, per_device_train_batch_size=4, logging_steps=1)
    loop = a_loop(tiny, config)
    completions = ([(2, 1), (0, 3)], [(1, 1), (1, 1)])
    rows = []
    for parts, completions_of_group in enumerate(completions, start=1):
        group = group_of(completions_of_group, [[-1.0] * 2] * 2, group_id=parts, parts=parts)
        rows += asyncio.run(loop._score_group(group))
    assert len(rows) == 2 + 4
    trainer = trainer_on(rows, tiny, config)
    trainer.train()
    (logged,) = [row["max@2"] for row in trainer.state.log_history if "max@2" in row]
    best = [max(map(reward_of, completions_of_group)) for completions_of_group in completions]
    assert best[0] != best[1]
    assert logged == pytest.approx(np.mean(best))


def test_samples_without_a_reward_or_a_token_count_for_nothing(tiny, tmp_path):
    def gaps(completion_ids, **_):
        return [None if ids[0] == 0 else reward_of(tuple(ids)) for ids in completion_ids]

    config = settings(tmp_path, method="bon_loo1", num_generations=5, k=2)
    completions = [(2, 1), (0, 3), (1, 1), (2, 3), (1, 0)]
    group = group_of(completions, [[-1.0, -1.0]] * 5, group_id=0)
    group.completions_sequences[3] = []
    rows = asyncio.run(a_loop(tiny, config, gaps)._score_group(group))
    rewards = [reward_of(completions[0]), np.nan, reward_of((1, 1)), np.nan, reward_of((1, 0))]
    wanted = 5 * maxatk.advantages([rewards], "bon_loo1", 2)[0]
    np.testing.assert_allclose([row.advantage for row in rows], wanted[[0, 1, 2, 4]])


def test_what_is_no_reward_is_refused_by_name(tiny, tmp_path):
    class Judge:
        """An environment whose reward is a text."""

    def broken(**_):
        return 0.5

    config = settings(tmp_path, method="bon_loo1", num_generations=4)
    completions = [(2, 1), (0, 3), (1, 1), (0, 0)]
    group = group_of(completions, [[-1.0, -1.0]] * 4, group_id=0)
    with pytest.raises(InvalidValueError, match=r"reward_funcs: broken must .* 4 .*; got 0\.5"):
        asyncio.run(a_loop(tiny, config, broken)._score_group(group))
    group.env_rewards = [None, (Judge, 1.0), (Judge, "1"), None]
    with pytest.raises(InvalidValueError, match=r"get_reward of Judge must .*; got '1'"):
        asyncio.run(a_loop(tiny, config)._score_group(group))


def test_a_group_that_is_too_old_in_part_is_left_out():
    def row(group, place, rows):
        ids = np.array([2, 3, place])
        return {
            "input_ids": ids,
            "completion_mask": np.array([0, 0, 1]),
            "old_log_probs": np.zeros(3),
            "group_id": group,
            "metrics": {"maxatk/rows": float(rows), "maxatk/place": float(place), "reward": 0.0},
        }

    def pack(examples):
        return {"packed": examples[0]}

    stream = [row(0, 1, 2), row(1, 0, 3), row(1, 1, 3), row(1, 1, 3), row(2, 0, 2), row(2, 1, 2)]
    metrics = {"sample/dropped_incomplete_total": []}
    (batch,) = WholeGroups(stream, pack, processes=2, groups=1, size=2, metrics=metrics)
    assert [sorted(packed.groups) for packed in batch["packed"]] == [[1], [2]]
    assert [len(packed.samples) for packed in batch["packed"]] == [3, 2]
    assert metrics == {"sample/dropped_incomplete_total": [1.0]}


@pytest.mark.long
def test_a_training_runs_against_a_server_with_older_weights(model_folder, tmp_path):
    AutoModelForCausalLM.from_pretrained(model_folder).save_pretrained(tmp_path / "model")
    folder = with_templates(model_folder, tmp_path / "model")
    server = Server(folder)
    before = {name: weight.clone() for name, weight in server.model.state_dict().items()}
    prompts = [[{"role": "user", "content": f"order cut sum\n1 2 > {n}\n#\n"}] for n in range(6)]
    with server.listening() as address:
        trainer = MaxAtKAsyncTrainer(
            model=folder,
            reward_funcs=letters,
            args=settings(
                tmp_path,
                method="bon_off_policy_exact",
                vllm_server_base_url=address,
                max_steps=4,
                num_generations=4,
                per_device_train_batch_size=8,
                max_inflight_tasks=16,
                max_completion_length=6,
                weight_sync_steps=1,
                max_staleness=8,
                learning_rate=0.01,
            ),
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
            weight_transfer=server,
        )
        trainer.train()
    rows = [row for row in trainer.state.log_history if "reward" in row]
    assert len(rows) == 4
    assert max(row["sample/staleness_max"] for row in rows) >= 1
    assert server.transfers == 5  # one before the first step
    after = server.model.state_dict()
    assert any((after[name] != weight).any() for name, weight in before.items())
    for name, weight in trainer.model.named_parameters():
        torch.testing.assert_close(after[name], weight.detach())
    assert all(row["max@2"] >= row["max@1"] for row in rows)
    ratios = [row.get("ratio/effective_samples") for row in rows]
    assert ratios[0] == pytest.approx(1, abs=1e-3)  # sampled by the first weights
    assert min(ratios) < 0.9999
    json.dumps(rows)


def test_a_training_killed_behind_its_last_step_takes_no_further_one(tiny, tmp_path):
    config = settings(
        tmp_path, method="bon_loo1", save_strategy="steps", save_steps=1, learning_rate=0.1
    )

    def run(resume):
        rollouts = group_of(sequences(1)[:3], [[-1.0]] * 3, group_id=0)
        rows = asyncio.run(a_loop(tiny, config)._score_group(rollouts))
        trainer = trainer_on(rows, tiny, config)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    finished = run(resume=None)
    again = run(resume=str(tmp_path / "checkpoint-1"))
    assert again.state.global_step == 1
    assert are_equal(copied(again.model), copied(finished.model))


def letters(completions, **_):
    return text_reward([turns[0]["content"] for turns in completions])


REFUSED = {
    "k above n": ({"k": 4}, r"k: must be a whole number from 1 to num_generations \(3\), got 4"),
    "k of n": ({"k": 3, "method": "bon_centred"}, r"k=3 needs at least 4 samples, got 3"),
    "an unknown method": ({"method": "bon"}, "method: unknown value 'bon'"),
    "a method on answers": ({"method": "majority"}, "method: 'majority' looks at answers, which"),
    "a split group": (
        {"per_device_train_batch_size": 4},
        "per_device_train_batch_size: must be a multiple of num_generations 3.*got 4",
    ),
    "a budget of tokens": ({"token_budget": 100}, "token_budget: must be 0 .*got 100"),
    "the server's budget": ({"token_budget": None}, "token_budget: must be 0 .*got None"),
    "noise": ({"neftune_noise_alpha": 5.0}, "neftune_noise_alpha: must be None with the method"),
    "a temperature of 0": ({"temperature": 0.0}, "temperature: must be positive and finite"),
    "another distribution": ({"top_p": 0.9}, "top_p: must be 1.0 with the method"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_settings_are_refused_before_any_work(tmp_path, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        settings(tmp_path, **changes)


def test_settings_are_pickled_without_the_token_of_the_hub(tmp_path):
    config = settings(tmp_path, hub_token="hf_abc")
    assert config.hub_token == "hf_abc"
    assert b"hf_abc" not in pickle.dumps(config)


def test_a_method_without_a_correction_may_pack_by_tokens(tmp_path):
    config = settings(
        tmp_path,
        method="bon_loo1",
        token_budget=100,
        top_p=0.9,
        per_device_train_batch_size=4,
    )
    assert config.token_budget == 100


def test_another_way_to_score_groups_is_refused(tiny, tmp_path):
    def make(config, **arguments):
        return MaxAtKAsyncTrainer(
            model=tiny,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": []}]),
            weight_transfer=NoTransfer(),
            **{"reward_funcs": rewards_of_ids, **arguments},
        )

    with pytest.raises(InvalidValueError, match="args: must be a MaxAtKAsyncConfig, got NoneType"):
        make(None)
    with pytest.raises(InvalidValueError, match=r"reward_funcs: best_of_2_.* makes advantages"):
        make(settings(tmp_path), reward_funcs=maxatk.best_of(rewards_of_ids, k=2))
    worker = types.SimpleNamespace(_loop_cls=AsyncRolloutWorker._loop_cls)
    with pytest.raises(InvalidValueError, match=r"rollout_worker: .*divides by their deviation"):
        make(settings(tmp_path), rollout_worker=worker)


class OwnWorker(AsyncRolloutWorker):
    _loop_cls = MaxAtKRolloutLoop


@pytest.mark.parametrize(
    ("field", "of_worker"),
    [
        ("objective", {"objective": Objective(method="bon_loo1", k=3)}),
        ("objective", {}),
        ("num_generations", {"num_generations": 8}),
    ],
)
def test_a_worker_of_other_settings_is_refused(tiny, tmp_path, field, of_worker):
    """Its advantages would be those of another k, method or size, and nothing would tell."""
    config = settings(tmp_path, method="bon_loo1", num_generations=4, per_device_train_batch_size=4)
    if field == "num_generations":
        of_worker = {**of_worker, "objective": config.objective}
    with pytest.raises(InvalidValueError, match=f"rollout_worker: {field}: must be that of the"):
        MaxAtKAsyncTrainer(
            tiny,
            rewards_of_ids,
            config,
            Dataset.from_list([{"prompt": []}]),
            rollout_worker=OwnWorker(**of_worker),
            weight_transfer=NoTransfer(),
        )


TALKS = Dataset.from_list([{"prompt": [{"role": "user", "content": "1"}]}] * 4)

NO_CONVERSATIONS = {
    "texts": (
        {"train_dataset": Dataset.from_list([{"prompt": "1"}] * 4)},
        TEMPLATE,
        "train_dataset: prompt: must be lists of messages, .* got 'string'",
    ),
    "no chat template": ({}, None, "processing_class: must be a tokenizer with a chat template"),
    "replies that nobody can read": (
        {},
        TEMPLATE,
        "processing_class: must be a tokenizer with a response_template, .*: Unrecognized chat",
    ),
    "programs, which no reward would see": (
        {"environment_factory": Programs},
        TEMPLATE,
        "environment_factory: must be an environment with `get_reward`: .*Programs",
    ),
    "programs among others": (
        {"environment_factory": {"code": functools.partial(Programs, turns=3)}},
        TEMPLATE,
        "environment_factory: must be an environment with `get_reward`: .*Programs",
    ),
}


@pytest.mark.parametrize("is_given", [True, False], ids=["given", "of the model"])
@pytest.mark.parametrize(
    ("changes", "template", "message"), NO_CONVERSATIONS.values(), ids=NO_CONVERSATIONS
)
def test_what_makes_no_conversation_is_refused_before_the_weights(
    broken_weights, tmp_path, changes, template, message, is_given
):
    tokenizer = AutoTokenizer.from_pretrained(broken_weights)
    tokenizer.chat_template = template
    if is_given:
        changes = {**changes, "processing_class": tokenizer}
    else:
        tokenizer.save_pretrained(broken_weights)
    with pytest.raises(InvalidValueError, match=message):
        start(broken_weights, tmp_path, **changes)


def test_conversations_with_replies_that_can_be_read_are_taken(broken_weights, tmp_path):
    with_templates(broken_weights, broken_weights)
    with pytest.raises(SafetensorError):
        start(broken_weights, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(broken_weights)
    tokenizer.chat_template = qwen3_chat_template
    tokenizer.response_template = None
    with pytest.raises(SafetensorError):
        start(broken_weights, tmp_path, processing_class=tokenizer)
    assert tokenizer.response_template is None  # which is left to TRL


def start(folder, tmp_path, *, train_dataset=TALKS, **changes):
    return MaxAtKAsyncTrainer(
        str(folder), rewards_of_ids, settings(tmp_path / "out"), train_dataset, **changes
    )
