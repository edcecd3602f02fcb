"""Sampling backends, append-only stores, evaluation runs and statistics."""

from maxatk.evaluation.backends import (
    BACKENDS,
    Backend,
    BackendRow,
    ModelSettings,
    ServerSettings,
    load_backend,
)
from maxatk.evaluation.evaluating import evaluate
from maxatk.evaluation.frames import frame
from maxatk.evaluation.recount import results_of_folder
from maxatk.evaluation.sampling import SamplingSettings
from maxatk.evaluation.scoring import score
from maxatk.evaluation.solving import Solution, solve
from maxatk.evaluation.submissions import Submission, read_submissions

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendRow",
    "ModelSettings",
    "SamplingSettings",
    "ServerSettings",
    "Solution",
    "Submission",
    "evaluate",
    "frame",
    "load_backend",
    "read_submissions",
    "results_of_folder",
    "score",
    "solve",
]
