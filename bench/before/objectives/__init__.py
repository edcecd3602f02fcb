"""Metrics, subset weights and estimators of best-of-N training; NumPy only."""

from before.objectives.advantage import Form, advantages, effective_sample_size
from before.objectives.methods import METHODS, Method
from before.objectives.metrics import max_at_k, pass_at_k

__all__ = [
    "METHODS",
    "Form",
    "Method",
    "advantages",
    "effective_sample_size",
    "max_at_k",
    "pass_at_k",
]
