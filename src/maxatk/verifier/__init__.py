"""Verify untrusted Python programs fast, safely and fairly (Linux only; see docs/verifier.md)."""

from maxatk.verifier.compare import COMPARE
from maxatk.verifier.doctor import Layer, doctor
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job
from maxatk.verifier.rewards import CodeReward, binary_code_reward, code_reward, problem_job
from maxatk.verifier.verifier import Progress, Verifier
from maxatk.verifier.verl import compute_score, compute_scores

__all__ = [
    "COMPARE",
    "CodeReward",
    "Job",
    "Layer",
    "Progress",
    "Verifier",
    "binary_code_reward",
    "code_reward",
    "compute_score",
    "compute_scores",
    "doctor",
    "extract_code",
    "problem_job",
]
