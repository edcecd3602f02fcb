"""Verify untrusted programs in Python, C++ and C fast, safely and fairly (Linux only).

See docs/verifier.md.
"""

from maxatk.verifier.calls import called_name, is_plain_call
from maxatk.verifier.extract import extract_code
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.languages import LANGUAGES
from maxatk.verifier.languages_here import LanguageHere, languages_here
from maxatk.verifier.limits import Limits
from maxatk.verifier.rules import COMPARE
from maxatk.verifier.running import Output
from maxatk.verifier.settings import VerifierSettings
from maxatk.verifier.trl_rewards import CodeReward, binary_code_reward, code_reward
from maxatk.verifier.verifier import Progress, Verifier, quick_turns
from maxatk.verifier.verl_rewards import compute_score, compute_scores
from maxatk.verifier.zygote_process import Layer, doctor

__all__ = [
    "COMPARE",
    "LANGUAGES",
    "CodeReward",
    "Job",
    "LanguageHere",
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
    "is_plain_call",
    "languages_here",
    "problem_job",
    "quick_turns",
]
