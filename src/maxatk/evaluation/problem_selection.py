"""Problems chosen by how well a model did on them, with a record of that in each problem."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from maxatk.check import is_finite, require
from maxatk.errors import DataError, MissingFileError, counted
from maxatk.evaluation.folder import problems_content_digest, refuse_file
from maxatk.evaluation.load import results_of_folder
from maxatk.evaluation.results import Results
from maxatk.evaluation.selection_note import SELECTED_BY
from maxatk.problems.load import read_problems
from maxatk.records import Problem
from maxatk.statistics.intervals import in_unit

_log = logging.getLogger(__name__)


def select_problems(
    run: str | Path,
    problems: str | Path | None = None,
    *,
    k: int = 1,
    above: float | None = 0.0,
    below: float = 1.0,
    mapping: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return the problems whose max@k in a run lies strictly between two values, in their order.

    The default bounds suit rewards from 0 to 1; for others they may be any. `above` None is no
    lower bound: problems without any success are kept too. `problems` are by default those of the
    run; with a `mapping` they are a file of any table. The `meta` of every problem gets the field
    `selected_by`, because what a model's own successes chose is no fair comparison for that model:
    see `selection_note`. Raises MissingFileError without the run or its problems, InvalidValueError
    for the bounds and the k, DataError for other problems, and as `read_problems`.
    """
    require(above is None or is_finite(above), "above", "a finite number, or None", above)
    require(is_finite(below), "below", "a finite number", below)
    least = -math.inf if above is None else above
    require(least < below, "max@k", "within bounds min < max", (above, below))
    refuse_file("run", run)
    results = results_of_folder(run, ks=[k])
    source = problems or results.recorded("problems_file")
    if source is None:
        raise MissingFileError(
            f"problems: {str(run)!r} does not say where its problems are; name their file"
        )
    _warn_of_other_rewards(results, run, above, below)
    values = dict(zip(results.ids, results.per_problem.values["max@k"][k], strict=True))
    by_id = read_problems(str(source), mapping=mapping)
    candidates = [problem for problem in by_id.values() if problem.id in values]
    _refuse_others(candidates, results, run)
    lower_bound = "" if above is None else f"{above:g} < "
    rule = f"{lower_bound}max@{k} < {below:g} of {_drawn_by(results, run)}"
    chosen = []
    for problem in candidates:
        value = values[problem.id]
        if value is not None and least < value < below:
            chosen.append(_with_selection(problem, rule))
    return chosen


def _warn_of_other_rewards(
    results: Results, run: str | Path, above: float | None, below: float
) -> None:
    """Warn where the bounds are those for rewards from 0 to 1, and the rewards are others."""
    extremes = results.per_problem.extremes
    if (above, below) == (0.0, 1.0) and extremes and not in_unit(np.array(extremes)):
        _log.warning(
            "%s: its rewards lie from %g to %g, and the bounds 0 and 1 suit rewards from 0 to 1 "
            "alone; give --min-max-at-k and --max-max-at-k",
            run,
            min(extremes),
            max(extremes),
        )


def _refuse_others(candidates: Sequence[Problem], results: Results, run: str | Path) -> None:
    """Raise DataError for problems that are not those of a run.

    A run of rewards that were there already knows the ids of its problems alone.
    """
    missing = set(results.ids) - {problem.id for problem in candidates}
    if missing:
        raise DataError(
            f"problems: are not those that {str(run)!r} was run on: they lack "
            f"{len(missing)}, such as {min(missing)!r}"
        )
    if results.recorded("settings.rewards") is not None:
        return
    recorded = results.recorded("settings.problems.sha256")
    if recorded not in (None, problems_content_digest(candidates)):
        raise DataError(
            f"problems: are not those that {str(run)!r} was run on: their ids are, and their "
            "prompts, tests or order are others"
        )


def _drawn_by(results: Results, run: str | Path) -> str:
    """Say whose samples a run has, and how many of a problem."""
    model = results.recorded("settings.model.model") or run
    return f"{counted(max(results.per_problem.samples), 'sample')} of {model}"


def _with_selection(problem: Problem, rule: str) -> Problem:
    """Return the problem with the rule in its meta, behind those that chose it before."""
    earlier = problem.meta.get(SELECTED_BY)
    rules = rule if earlier is None else f"{earlier}; {rule}"
    return dataclasses.replace(problem, meta={**problem.meta, SELECTED_BY: rules})
