"""The embedded default: problems, tokenizer and language model small enough for two cores."""

from maxatk.mini.build import MiniSettings, build_mini
from maxatk.mini.problems import MiniProblem, Noise, generate_problems
from maxatk.mini.warm_start import WarmStart

__all__ = [
    "MiniProblem",
    "MiniSettings",
    "Noise",
    "WarmStart",
    "build_mini",
    "generate_problems",
]
