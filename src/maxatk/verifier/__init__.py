"""Verify untrusted Python programs fast, safely and fairly (Linux only; see docs/verifier.md)."""

from maxatk.verifier.ahead import Ahead, quick_turns
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.layers import Layer, doctor
from maxatk.verifier.rewards import (
    CodeReward,
    binary_code_reward,
    code_reward,
    completion_text,
)
from maxatk.verifier.rules import COMPARE
from maxatk.verifier.verifier import Progress, Verifier, VerifierSettings
from maxatk.verifier.verl import compute_score, compute_scores

__all__ = [
    "COMPARE",
    "Ahead",
    "CodeReward",
    "Job",
    "Layer",
    "Progress",
    "Verifier",
    "VerifierSettings",
    "binary_code_reward",
    "code_reward",
    "completion_text",
    "compute_score",
    "compute_scores",
    "doctor",
    "extract_code",
    "problem_job",
    "quick_turns",
]
