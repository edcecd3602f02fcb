"""Problems chosen by what a model made of them."""

from __future__ import annotations

from pathlib import Path

from maxatk.check import require
from maxatk.errors import DataError, MissingFileError
from maxatk.evaluation.folder import problems_digest
from maxatk.evaluation.load import results_of_folder
from maxatk.problems.load import load_problems
from maxatk.records import Problem


def select_problems(
    run: str | Path,
    problems: str | Path | None = None,
    *,
    k: int = 1,
    above: float = 0.0,
    below: float = 1.0,
) -> list[Problem]:
    """Return the problems whose max@k in a run lies strictly between two values, in their order.

    `problems` are by default those of the run. Raises MissingFileError without the run or its
    problems, InvalidValueError for the bounds and the k, DataError for other problems.
    """
    require(0 <= above < below <= 1, "max@k", "within bounds 0 <= min < max <= 1", (above, below))
    results = results_of_folder(run, ks=[k])
    source = problems or results.recorded("problems_file")
    if source is None:
        raise MissingFileError(f"problems: {str(run)!r} does not say where its problems are")
    values = dict(zip(results.ids, results.per_problem.values["max@k"][k], strict=True))
    chosen = [problem for problem in load_problems(str(source)) if problem.id in values]
    recorded = results.recorded("settings.problems.sha256")
    if len(chosen) != len(values) or recorded not in (None, problems_digest(chosen)):
        raise DataError(f"problems: are not those that {str(run)!r} was run on")
    return [p for p in chosen if (v := values[p.id]) is not None and above < v < below]
