"""Train and evaluate language models for best-of-N; what needs more than NumPy is loaded on use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from maxatk.errors import MaxAtKError, MissingDependencyError
from maxatk.objectives import (
    METHODS,
    Method,
    OrderWeights,
    advantages,
    chance_of_best,
    distinct_at_k,
    influence,
    majority_at_k,
    max_at_k,
    order_at_k,
    pass_at_k,
    rollout_weights,
    weighting,
)
from maxatk.records import Outcome, Problem, Sample, Score, TestCase, TestResult, Verdict
from maxatk.version import VERSION

if TYPE_CHECKING:
    from maxatk.evaluation import evaluate, solve
    from maxatk.problems import load_problems
    from maxatk.report import compare, plot
    from maxatk.training import best_of
    from maxatk.verifier import Verifier

__version__ = VERSION

__all__ = [
    "METHODS",
    "MaxAtKError",
    "Method",
    "OrderWeights",
    "Outcome",
    "Problem",
    "Sample",
    "Score",
    "TestCase",
    "TestResult",
    "Verdict",
    "Verifier",
    "advantages",
    "best_of",
    "chance_of_best",
    "compare",
    "distinct_at_k",
    "evaluate",
    "influence",
    "load_problems",
    "majority_at_k",
    "max_at_k",
    "order_at_k",
    "pass_at_k",
    "plot",
    "rollout_weights",
    "solve",
    "weighting",
]

_LAZY = {
    "Verifier": "maxatk.verifier",
    "best_of": "maxatk.training",
    "compare": "maxatk.report",
    "evaluate": "maxatk.evaluation",
    "load_problems": "maxatk.problems",
    "plot": "maxatk.report",
    "solve": "maxatk.evaluation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'maxatk' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"maxatk.{name} needs the package {error.name!r}: pip install 'maxatk[report]'"
        ) from error
