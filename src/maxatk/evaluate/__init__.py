"""Sampling backends, append-only stores, evaluation runs and statistics.

The package can be called: `maxatk.evaluate(...)` is `maxatk.evaluate.evaluate(...)`, whether or
not somebody has imported the package before.
"""

import sys
import types

from maxatk.evaluate.backends import BACKENDS, Backend, ServerSettings, load_backend
from maxatk.evaluate.folder import results_of_folder
from maxatk.evaluate.programs import Submission, read_submissions
from maxatk.evaluate.run import evaluate
from maxatk.evaluate.scoring import score
from maxatk.evaluate.settings import SamplingSettings
from maxatk.evaluate.solving import Solution, solve

__all__ = [
    "BACKENDS",
    "Backend",
    "SamplingSettings",
    "ServerSettings",
    "Solution",
    "Submission",
    "evaluate",
    "load_backend",
    "read_submissions",
    "results_of_folder",
    "score",
    "solve",
]


class _CallableModule(types.ModuleType):
    # The function has the name of its package, so `maxatk.evaluate` is this module: it must work
    # as the function too.
    __call__ = staticmethod(evaluate)


sys.modules[__name__].__class__ = _CallableModule
