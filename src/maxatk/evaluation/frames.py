"""Results of rewards that are in a pandas data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxatk.errors import DataError, unknown_name
from maxatk.evaluation.outside import results_of_outside, run_of_rows
from maxatk.exchange import log
from maxatk.exchange.log import LogRow

if TYPE_CHECKING:
    import pandas as pd


def frame(
    data: pd.DataFrame,
    *,
    problem: str = "problem_id",
    reward: str = "reward",
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
) -> dict[str, Any]:
    """Return the results of a long data frame: one row a sample, as `evaluate` computes them.

    Args:
        data: The samples; rows of one value in `problem` are the samples of one problem.
        problem: The column of the problem's id.
        reward: The column of the reward; NaN is a sample without one.
        more_ks: Further k beside 1, 2, 4, ...
        threshold: The reward from which a sample passes.

    Raises InvalidValueError for a column that is not there and for a k above the samples,
    DataError for a reward that is no number or an empty frame.
    """
    for field, column in (("problem", problem), ("reward", reward)):
        if column not in data.columns:
            raise unknown_name(field, column, map(str, data.columns))
    if not len(data):
        raise DataError("data: holds no rows")
    others = {
        str(name): data[name].tolist()
        for name in data.select_dtypes("number").columns
        if name not in (problem, reward)
    }
    counts: dict[str, int] = {}
    rows = []
    for number, (key, value) in enumerate(
        zip(data[problem].tolist(), data[reward].tolist(), strict=True)
    ):
        try:
            identity, found = log.identifier(key, problem), log.reward(value, reward)
        except DataError as error:
            raise DataError(f"data, row {number}: {error}") from error
        columns = log.numbers({name: values[number] for name, values in others.items()}, without=())
        sample = counts.get(identity, 0)
        counts[identity] = sample + 1
        rows.append(LogRow(identity, sample, reward=found, columns=columns))
    run = run_of_rows(rows, source={"frame": {"problem": problem, "reward": reward}})
    return results_of_outside(run, more_ks=more_ks, threshold=threshold)
