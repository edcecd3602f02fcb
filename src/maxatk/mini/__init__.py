"""The embedded default: problems, tokenizer and language model small enough for two cores."""

from maxatk.mini.build import MiniSettings, WarmStart, build_mini
from maxatk.mini.problems import MiniProblem, Noise, generate_problems

__all__ = [
    "MiniProblem",
    "MiniSettings",
    "Noise",
    "WarmStart",
    "build_mini",
    "generate_problems",
]
