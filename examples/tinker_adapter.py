"""tinker-cookbook: max@k in place of the centred rewards.

Import this file before `tinker_cookbook.rl.train.main` runs. The Tinker API is served by Tinker,
by SkyRL and by VeRL-Tinker.

It ran on 23 November 2026 as `train.compute_advantages` of tinker-cookbook 9dfcc3a: largest
difference from `maxatk.advantages` 1.1e-7, in float32.
"""

import math

import torch
from tinker_cookbook.rl import train

from maxatk import advantages


def compute_advantages(trajectory_groups_P):
    """Return a tensor of advantages for each group of trajectories."""
    rewards = [group.get_total_rewards() for group in trajectory_groups_P]
    rewards.append([math.nan] * 4)  # so that a call with groups smaller than k gives them 0
    table = advantages(rewards, "bon_loo1", k=4)[:-1]
    return [len(row) * torch.tensor(row).float() for row in table]


train.compute_advantages = compute_advantages
