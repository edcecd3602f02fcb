"""The adapters of docs/engines.md, run with the arguments that the other projects document."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from maxatk import advantages

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
SKYRL, SLIME, RLLM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

REWARDS = np.array([0.0, 1.0, 0.5, 0.25, 0.75, 0.0, 1.0, 0.25, 0.0, 0.5])
IDS = ["x", "y", "x", "x", "y", "y", "x", "y", "x", "y"]


def expected():
    """Five times the advantages of each group, at the places of its rows."""
    found = np.zeros(len(REWARDS))
    for one in "xy":
        at = np.flatnonzero(np.array(IDS) == one)
        found[at] = 5 * advantages(REWARDS[None, at], "bon_loo1", 4)[0]
    return found


@pytest.fixture
def module(monkeypatch):
    """A package that is not installed here, with the one name that an adapter imports."""

    def put(dotted, **names):
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        for name, value in names.items():
            setattr(sys.modules[dotted], name, value)

    return put


def test_the_adapter_of_skyrl(module):
    registered = {}
    registry = types.SimpleNamespace(register=registered.__setitem__)
    module("skyrl.backends.skyrl_train.utils.ppo_utils", AdvantageEstimatorRegistry=registry)
    exec(SKYRL, {})
    mask = torch.ones(len(REWARDS), 3)
    mask[::2, 2] = 0
    tokens = torch.zeros(len(REWARDS), 3)
    tokens[:, 1] = torch.from_numpy(REWARDS).float()
    found, returns = registered["maxatk"](
        token_level_rewards=tokens,
        response_mask=mask,
        index=np.array(IDS),
        config=None,
        values=None,
        grpo_norm_by_std=True,
    )
    torch.testing.assert_close(found, torch.from_numpy(expected()).float()[:, None] * mask)
    assert returns is found


def test_the_adapter_of_slime():
    scope = {}
    exec(SLIME, scope)

    class Sample:
        def __init__(self, group_index, reward):
            self.group_index, self.reward = group_index, reward

        def get_reward_value(self, args):
            return self.reward[args.reward_key]

    samples = [Sample(i, {"score": r}) for i, r in zip(IDS, REWARDS.tolist(), strict=True)]
    raw, found = scope["post_process"](types.SimpleNamespace(reward_key="score"), samples)
    assert raw == REWARDS.tolist()
    np.testing.assert_allclose(found, expected())


def test_the_adapter_of_rllm(module):
    registered = {}

    def register(name):
        return lambda function: registered.setdefault(name, function)

    module("rllm.experimental.common.advantage", register_rllm_adv_estimator=register)
    exec(RLLM, {})
    groups = [REWARDS[np.array(IDS) == one] for one in "xy"]
    found, returns = registered["maxatk"](rewards=groups, algorithm_config=None)
    for one, group in zip("xy", found, strict=True):
        np.testing.assert_allclose(group, expected()[np.array(IDS) == one])
    assert returns is found
