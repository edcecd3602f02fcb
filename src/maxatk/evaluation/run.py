"""Evaluate a model, score the samples of a file, or say what either would do."""

from __future__ import annotations

import contextlib
from typing import Any

from maxatk.check import function_or_none, require
from maxatk.evaluation.evaluation import Evaluation, UnitProgress
from maxatk.evaluation.file_evaluation import FiledEvaluation
from maxatk.evaluation.recipe import EvalRecipe, RunRecipe, ScoreRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.sampled_evaluation import SampledEvaluation
from maxatk.sampling import Backend
from maxatk.verifier import Verifier


def evaluate(
    recipe: EvalRecipe,
    *,
    backend: Backend | None = None,
    verifier: Verifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Sample a model on every problem, score the samples beside it, and return the results.

    The folder gets samples.jsonl, scores.jsonl, failures.jsonl, prompts.jsonl, manifest.json and
    results.json. The same call continues a killed run, with the same samples as an uninterrupted
    one. Other settings are refused, but a run may grow by samples, and by problems behind its own.

    A `backend` or a `verifier` that is given is open, and stays so; else the recipe says which.
    `progress` is called with (done, total, "samples" or "scores"), from two threads.

    Raises MissingFileError (problems, model), DataError (problems, the folder's files) and
    InvalidValueError (settings, the folder's manifest) before any sampling; ServerError later.
    """
    require(isinstance(recipe, EvalRecipe), "recipe", "an EvalRecipe", recipe)
    is_backend = backend is None or isinstance(backend, Backend)
    require(is_backend, "backend", "a Backend that is open", backend)
    function_or_none("progress", progress)
    with _opened(recipe, verifier) as verifier:
        return SampledEvaluation(recipe, verifier, backend).carry_out(progress)


def score(
    recipe: ScoreRecipe,
    *,
    verifier: Verifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Score the samples of a file and return the results.

    The folder gets what that of `evaluate` does. The same call continues one that was killed, and
    one whose samples or problems have grown at their end scores what is new.

    Raises MissingFileError, DataError (an unreadable line, a sample of an unknown problem, a
    problem without samples) or InvalidValueError (k, settings), all before any verification.
    """
    require(isinstance(recipe, ScoreRecipe), "recipe", "a ScoreRecipe", recipe)
    function_or_none("progress", progress)
    with _opened(recipe, verifier) as verifier:
        return FiledEvaluation(recipe, verifier).carry_out(progress)


def plan(recipe: EvalRecipe | ScoreRecipe) -> dict[str, Any]:
    """Return what `evaluate` or `score` would do, as counts; nothing is written. Raises as they do.

    Of problems, samples, those "found", and the most new tokens or distinct programs and tests. A
    run that is under way is no error: what it has stored so far is "found". Reward functions of
    the user's own are called once: "rewards" has by name what they give for three completions.
    Raises InvalidValueError where one fails for all three.
    """
    is_recipe = isinstance(recipe, (EvalRecipe, ScoreRecipe))
    require(is_recipe, "recipe", "an EvalRecipe or a ScoreRecipe", recipe)
    with recipe.verifier.open() as verifier:
        evaluation: Evaluation
        if isinstance(recipe, EvalRecipe):
            evaluation = SampledEvaluation(recipe, verifier, for_reading=True)
        else:
            evaluation = FiledEvaluation(recipe, verifier, for_reading=True)
        rewards = evaluation.try_reward()
        return {**evaluation.plan(), **({"rewards": rewards} if rewards else {})}


def _opened(
    recipe: RunRecipe, verifier: Verifier | None
) -> contextlib.AbstractContextManager[Verifier]:
    is_verifier = verifier is None or isinstance(verifier, Verifier)
    require(is_verifier, "verifier", "a Verifier that is open", verifier)
    return recipe.verifier.open() if verifier is None else contextlib.nullcontext(verifier)
