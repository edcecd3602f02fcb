"""Sampling backends, append-only stores, evaluation runs and statistics."""

from maxatk.evaluate.backends import BACKENDS, Backend, load_backend
from maxatk.evaluate.programs import Submission, read_submissions
from maxatk.evaluate.run import evaluate, score
from maxatk.evaluate.settings import SamplingSettings

__all__ = [
    "BACKENDS",
    "Backend",
    "SamplingSettings",
    "Submission",
    "evaluate",
    "load_backend",
    "read_submissions",
    "score",
]
