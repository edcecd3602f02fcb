"""The correction in the loss, on micro-batches made by hand, against plain torch; no Ray."""

import numpy as np
import pytest

pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig, FSDPOptimizerConfig

import maxatk
from maxatk import METHODS
from maxatk.objectives.objective import Objective
from maxatk.verl.loss import FACTOR_KEY, K_KEY, SELECTION_KEY, SESSION, group_loss, spread

N = 4
K = 3
CORRECTED = [name for name, row in METHODS.items() if row.correction != "none"]


def actor_config():
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=N,
        ppo_micro_batch_size_per_gpu=1,
        optim=FSDPOptimizerConfig(lr=1e-3),
    )


def nested(rows):
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def rows(groups=3, *, empty=2, seed=0):
    """Whole groups; the last has lost `empty` samples, whose places empty rows fill."""
    made = torch.Generator().manual_seed(seed)
    batch = []
    for group in range(groups):
        for place in range(N):
            real = group < groups - 1 or place < N - empty
            length = int(torch.randint(1, 6, (1,), generator=made)) if real else 1
            batch.append(
                {
                    "uid": f"group {group}" if real else "pad",
                    "prompts": torch.ones(2 + group, dtype=torch.long),
                    "responses": torch.ones(length, dtype=torch.long),
                    "response_mask": torch.full((length,), int(real)),
                    "rm_scores": torch.randint(0, 5, (length,), generator=made) / 4.0 * real,
                    "old_log_probs": -torch.rand(length, generator=made),
                    "log_probs": -torch.rand(2 + group + length, generator=made),
                }
            )
    batch[1]["rm_scores"][0] = float("nan")
    return batch


def loss_of(chosen, weights, method, *, scores=None, factor=1.0, sessions=None):
    """The loss of a micro-batch under log-probabilities `weights` x those of the rows."""
    fields = ("prompts", "responses", "response_mask", "rm_scores", "old_log_probs")
    data = TensorDict({name: nested(r[name] for r in chosen) for name in fields}, [len(chosen)])
    data["advantages"] = torch.zeros_like(data["old_log_probs"])
    tokens = sum(int(row["response_mask"].sum()) for row in rows())
    tu.assign_non_tensor(
        data,
        dp_size=1,
        batch_num_tokens=tokens,
        global_batch_size=len(rows()),
        **{K_KEY: K, FACTOR_KEY: factor},
    )
    if scores is not None:
        data[SELECTION_KEY] = spread(data, scores)
    tu.assign_non_tensor_stack(data, "uid", [row["uid"] for row in chosen])
    if sessions is not None:
        data[SESSION] = torch.tensor(sessions)
    output = {"log_probs": nested(weights * row["log_probs"] for row in chosen)}
    objective = Objective(method=method, k=K, selection=None if scores is None else "judge")
    return data, group_loss(actor_config(), objective, N, output, data)


def response(row, weights):
    """The log-probabilities of the response's tokens: each stands one place before its token."""
    length = len(row["responses"])
    return weights * row["log_probs"][-length - 1 : -1]


def expected_loss(chosen, weights, method):
    """The advantages of every group by maxatk.advantages, and PPO's surrogate in plain torch."""
    tokens = sum(int(r["response_mask"].sum()) for r in chosen)
    total = 0.0
    advantages = []
    for start in range(0, len(chosen), N):
        group = [row for row in chosen[start : start + N] if row["uid"] != "pad"]
        rewards = np.full((1, N), np.nan)
        ratios = np.zeros((1, N))
        for place, row in enumerate(group):
            rewards[0, place] = float(row["rm_scores"].sum())
            with torch.no_grad():
                now = response(row, weights)
            ratios[0, place] = float((now.double() - row["old_log_probs"].double()).sum())
        advantage = maxatk.advantages(rewards, method, K, log_ratios=ratios)[0]
        for place, row in enumerate(chosen[start : start + N]):
            advantages.append(0.0 if row["uid"] == "pad" else advantage[place])
            ratio = (response(row, weights) - row["old_log_probs"]).exp()
            surrogate = torch.minimum(
                advantages[-1] * ratio, advantages[-1] * ratio.clamp(0.8, 1.2)
            )
            if advantages[-1] < 0:  # verl's dual clip
                surrogate = torch.maximum(
                    surrogate, torch.full_like(surrogate, 3.0 * advantages[-1])
                )
            total = total - (surrogate * row["response_mask"]).sum()
    return advantages, total / tokens


@pytest.mark.parametrize("method", CORRECTED)
def test_advantages_and_gradient_are_those_of_plain_torch(method):
    chosen = rows()
    mine = torch.tensor(1.3, requires_grad=True)
    theirs = torch.tensor(1.3, requires_grad=True)
    data, (loss, metrics) = loss_of(chosen, mine, method)
    advantages, expected = expected_loss(chosen, theirs, method)
    row_advantages = [float(row[0]) for row in data["advantages"].unbind()]
    np.testing.assert_allclose(row_advantages, advantages, atol=1e-5)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    assert mine.grad.abs() > 0
    assert metrics["actor/maxatk/abs_log_ratio"] > 0


def test_a_selection_orders_the_samples_of_a_micro_batch_and_the_factor_multiplies():
    chosen = rows(groups=2, empty=0)
    scores = np.array([3.0, 1.0, 2.0, 4.0, 1.0, 4.0, 3.0, 2.0])
    data, _ = loss_of(chosen, torch.tensor(1.3), CORRECTED[0], scores=scores, factor=7.0)
    rewards = np.array([float(row["rm_scores"].sum()) for row in chosen]).reshape(2, N)
    now = [response(row, torch.tensor(1.3)).double() for row in chosen]
    ratios = [
        float((a - r["old_log_probs"].double()).sum()) for a, r in zip(now, chosen, strict=True)
    ]
    expected = maxatk.advantages(
        rewards,
        CORRECTED[0],
        K,
        log_ratios=np.reshape(ratios, (2, N)),
        selection=scores.reshape(2, N),
    )
    row_advantages = [float(row[0]) for row in data["advantages"].unbind()]
    np.testing.assert_allclose(row_advantages, 7 * expected.ravel(), atol=1e-4)
    assert np.abs(expected).max() > 0


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1), (1, 2)])
def test_the_gradient_is_the_same_for_every_split_into_whole_groups(sizes):
    chosen = rows()
    whole = torch.tensor(1.3, requires_grad=True)
    split = torch.tensor(1.3, requires_grad=True)
    loss_of(chosen, whole, CORRECTED[0])[1][0].backward()
    start = 0
    for size in sizes:
        part = chosen[start * N : (start + size) * N]
        loss_of(part, split, CORRECTED[0])[1][0].backward()
        start += size
    torch.testing.assert_close(split.grad, whole.grad)


def test_a_batch_that_says_no_k_keeps_its_advantages():
    chosen = rows()
    fields = ("prompts", "responses", "response_mask", "rm_scores", "old_log_probs")
    data = TensorDict({name: nested(r[name] for r in chosen) for name in fields}, [len(chosen)])
    data["advantages"] = torch.ones_like(data["old_log_probs"])
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=30, global_batch_size=len(chosen))
    output = {"log_probs": nested(row["log_probs"] for row in chosen)}
    group_loss(actor_config(), Objective(method=CORRECTED[0], k=K), N, output, data)
    assert (data["advantages"].values() == 1).all()


@pytest.mark.parametrize("method", CORRECTED)
def test_an_output_without_a_trained_token_is_no_part_of_its_session(method):
    chosen = rows(groups=2, empty=0)[N:]
    untrained = {**chosen[0], "response_mask": torch.zeros_like(chosen[0]["response_mask"])}
    untrained["rm_scores"] = torch.zeros_like(chosen[0]["rm_scores"])
    mine = torch.tensor(1.3, requires_grad=True)
    theirs = torch.tensor(1.3, requires_grad=True)
    sessions = [0, 0, 1, 2, 3]
    data, (loss, metrics) = loss_of([untrained, *chosen], mine, method, sessions=sessions)
    without, (expected, metrics_without) = loss_of(chosen, theirs, method, sessions=sessions[1:])
    first, *others = [float(row[0]) for row in data["advantages"].unbind()]
    assert first == 0
    assert others == [float(row[0]) for row in without["advantages"].unbind()]
    assert max(map(abs, others)) > 0
    torch.testing.assert_close(loss, expected)
    key = "actor/maxatk/abs_log_ratio"
    assert metrics[key] == metrics_without[key] > 0


def test_a_micro_batch_without_a_trained_token_has_no_advantages_and_no_ratio():
    masked = [
        {**row, "response_mask": torch.zeros_like(row["response_mask"])} for row in rows(empty=0)
    ]
    data, (loss, metrics) = loss_of(masked, torch.tensor(1.3), CORRECTED[0])
    assert (data["advantages"].values() == 0).all()
    assert loss == 0
    assert "actor/maxatk/abs_log_ratio" not in metrics
