"""Verify untrusted Python programs fast, safely and fairly (Linux only; see docs/verifier.md)."""

from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, Limits, called_name, problem_job
from maxatk.verifier.rewards import (
    CodeReward,
    binary_code_reward,
    code_reward,
    compute_score,
    compute_scores,
)
from maxatk.verifier.rules import COMPARE
from maxatk.verifier.running import Output
from maxatk.verifier.settings import VerifierSettings
from maxatk.verifier.verifier import Progress, Verifier, quick_turns
from maxatk.verifier.zygote_process import Layer, doctor

__all__ = [
    "COMPARE",
    "CodeReward",
    "Job",
    "Layer",
    "Limits",
    "Output",
    "Progress",
    "Verifier",
    "VerifierSettings",
    "binary_code_reward",
    "called_name",
    "code_reward",
    "compute_score",
    "compute_scores",
    "doctor",
    "extract_code",
    "problem_job",
    "quick_turns",
]
