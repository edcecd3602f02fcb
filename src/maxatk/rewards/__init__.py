"""Rewards by name: tests, answers, functions of one's own, reward models, and sums of them."""

from maxatk.rewards.answers import compute_answer_score
from maxatk.rewards.load import load_reward, load_rewards
from maxatk.rewards.reward import Failure, Reward
from maxatk.rewards.specification import RewardSpec, read_spec

__all__ = [
    "Failure",
    "Reward",
    "RewardSpec",
    "compute_answer_score",
    "load_reward",
    "load_rewards",
    "read_spec",
]
