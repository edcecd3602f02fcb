"""Evaluation runs: samples drawn or read, their scores and results, and the best of them."""

from maxatk.evaluation.external_rewards import frame
from maxatk.evaluation.load import results_of_folder
from maxatk.evaluation.merge import merge
from maxatk.evaluation.recipe import EvalRecipe, ScoreRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.run import evaluate, plan, score
from maxatk.evaluation.solve_problem import Choice, solve
from maxatk.evaluation.submissions import Submission, read_submissions
from maxatk.sampling import ModelSettings, SamplingSettings, ServerSettings

__all__ = [
    "Choice",
    "EvalRecipe",
    "ModelSettings",
    "Results",
    "SamplingSettings",
    "ScoreRecipe",
    "ServerSettings",
    "Submission",
    "evaluate",
    "frame",
    "merge",
    "plan",
    "read_submissions",
    "results_of_folder",
    "score",
    "solve",
]
