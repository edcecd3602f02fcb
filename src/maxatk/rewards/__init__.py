"""Rewards by name: tests, answers, functions of one's own, reward models, and sums of them."""

from maxatk.rewards.answers import compute_answer_score
from maxatk.rewards.reward import Reward, RewardFailure, RewardSpec
from maxatk.rewards.specification import load_reward, load_rewards, read_spec

__all__ = [
    "Reward",
    "RewardFailure",
    "RewardSpec",
    "compute_answer_score",
    "load_reward",
    "load_rewards",
    "read_spec",
]
