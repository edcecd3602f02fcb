"""Metrics, order-statistic weights and estimators of best-of-N training; NumPy only."""

from maxatk.objectives.advantage import Form, advantages, effective_sample_size, weighting
from maxatk.objectives.influence import influence
from maxatk.objectives.methods import METHODS, Method, as_method, check_group_size
from maxatk.objectives.metrics import (
    chance_of_best,
    distinct_at_k,
    majority_at_k,
    max_at_k,
    order_at_k,
    pass_at_k,
)
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rollouts import rollout_weights
from maxatk.objectives.setting import method_of

__all__ = [
    "METHODS",
    "Form",
    "Method",
    "OrderWeights",
    "advantages",
    "as_method",
    "chance_of_best",
    "check_group_size",
    "distinct_at_k",
    "effective_sample_size",
    "influence",
    "majority_at_k",
    "max_at_k",
    "method_of",
    "order_at_k",
    "pass_at_k",
    "rollout_weights",
    "weighting",
]
