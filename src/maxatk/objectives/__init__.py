"""Metrics, subset weights and estimators of best-of-N training; NumPy only."""

from maxatk.objectives.advantage import Form, advantages, effective_sample_size
from maxatk.objectives.methods import METHODS, Method
from maxatk.objectives.metrics import max_at_k, pass_at_k

__all__ = [
    "METHODS",
    "Form",
    "Method",
    "advantages",
    "effective_sample_size",
    "max_at_k",
    "pass_at_k",
]
