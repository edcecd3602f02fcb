"""The registered estimator through verl's own `compute_advantage`; no Ray."""

import numpy as np
import pytest

verl = pytest.importorskip("verl", reason="runs in its own environment: make test-verl")

import torch  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.trainer.ppo.ray_trainer import compute_advantage  # noqa: E402

import maxatk  # noqa: E402
from maxatk import METHODS  # noqa: E402
from maxatk.errors import InvalidValueError  # noqa: E402

N = 8
K = 4
TOKENS = 6
SIZES = {"a": 8, "b": 5, "c": 1, "d": 8, "e": 3}


def batch():
    """Groups of several sizes in any order, a reward that is NaN, and rows that fill the batch."""
    rng = np.random.default_rng(0)
    uids = np.array([u for u, n in SIZES.items() for _ in range(n)] + ["pad"] * 11, dtype=object)
    uids = uids[rng.permutation(len(uids))]
    rewards = np.round(rng.random(len(uids)), 2)
    rewards[uids == "pad"] = 0
    rewards[np.flatnonzero(uids == "d")[2]] = np.nan
    mask = torch.zeros(len(uids), TOKENS)
    token_rewards = torch.zeros(len(uids), TOKENS)
    for row, length in enumerate(rng.integers(1, TOKENS, len(uids))):
        mask[row, :length] = uids[row] != "pad"
        token_rewards[row, length - 1] = float(rewards[row])
    tensors = {"token_level_rewards": token_rewards, "response_mask": mask}
    return uids, rewards, DataProto.from_dict(tensors, non_tensors={"uid": uids})


def advantages_of(data, **settings):
    config = OmegaConf.create({"maxatk": settings})
    return compute_advantage(data, "maxatk", config=config).batch["advantages"]


@pytest.mark.parametrize(
    "method",
    [
        name
        for name, row in METHODS.items()
        if not row.credit_row.needs_answers and row.correction == "none"
    ],
)
def test_every_method_is_that_of_the_package(method):
    uids, rewards, data = batch()
    advantages = advantages_of(data, method=method, k=K, advantage_scale="sum")
    for uid, size in SIZES.items():
        at = np.flatnonzero(uids == uid)
        group = np.full((1, N), np.nan)
        group[0, :size] = rewards[at]
        expected = maxatk.advantages(group, method, K)[0, :size]
        np.testing.assert_allclose(advantages[at, 0], expected, atol=1e-6)
    assert torch.isfinite(advantages).all()
    assert (advantages[data.batch["response_mask"] == 0] == 0).all()
    assert advantages.abs().max() > 0


def test_the_scale_is_that_of_the_largest_group():
    _, _, data = batch()
    summed = advantages_of(data, method="bon_loo1", k=K, advantage_scale="sum")
    torch.testing.assert_close(advantages_of(data, method="bon_loo1", k=K), N * summed)


def test_what_the_trainer_tells_is_spread_over_the_responses():
    _, _, data = batch()
    current = np.linspace(-1, 1, len(data)).tolist()
    advantages = advantages_of(data, method="bon_off_policy", k=K, current=current)
    expected = torch.tensor(current)[:, None] * data.batch["response_mask"]
    torch.testing.assert_close(advantages, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a method and a k"),
        ({"method": "bon_off_policy_exact", "k": K}, "trainer_mode=maxatk_sync"),
        ({"method": "bon_loo1", "k": K, "k_schedule": "linear"}, "trainer_mode=maxatk_sync"),
        ({"method": "bon_loo1", "k": K, "selection": "judge"}, "selection=judge: needs trainer"),
        ({"method": "bon_loo1", "k": K, "advantage_scale": "batch"}, "scale=batch: needs trainer"),
        ({"method": "bon_loo1", "k": 9}, r"rollout.n \(8\), got 9"),
    ],
)
def test_what_a_trainer_of_verl_cannot_do_is_refused(settings, message):
    with pytest.raises(InvalidValueError, match=message):
        advantages_of(batch()[2], **settings)


def test_rewards_that_verl_penalises_are_refused():
    config = OmegaConf.create({"use_kl_in_reward": True, "maxatk": {"method": "bon_loo1", "k": K}})
    with pytest.raises(InvalidValueError, match=r"use_kl_in_reward: must be False.*use_kl_loss"):
        compute_advantage(batch()[2], "maxatk", config=config)
