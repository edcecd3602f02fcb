"""The embedded default: problems, tokenizer and language model small enough for two cores."""

from maxatk.mini.build import build_mini
from maxatk.mini.problems import MiniProblem, Noise, generate_problems
from maxatk.mini.settings import MiniSettings, WarmStart

__all__ = [
    "MiniProblem",
    "MiniSettings",
    "Noise",
    "WarmStart",
    "build_mini",
    "generate_problems",
]
