"""Metrics, order-statistic weights and estimators of best-of-N training; NumPy only."""

from maxatk.objectives.advantage import Form, advantages, check_group_size, effective_sample_size
from maxatk.objectives.methods import METHODS, Method
from maxatk.objectives.metrics import max_at_k, order_at_k, pass_at_k
from maxatk.objectives.order import OrderWeights

__all__ = [
    "METHODS",
    "Form",
    "Method",
    "OrderWeights",
    "advantages",
    "check_group_size",
    "effective_sample_size",
    "max_at_k",
    "order_at_k",
    "pass_at_k",
]
