"""The numbers of rows with group ids, as verl's trainers hold them; needs no verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import InvalidValueError
from maxatk.objectives.objective import Objective
from maxatk.training.rows import Rows
from maxatk.training.values import logged_ks, mean_max_at_k
from maxatk.verl.options import WHERE

_RETURNED = "reward_extra_info"  # verl's name for what the reward function returned


def advantages_of_rows(
    objective: Objective,
    ids: Sequence[str],
    rewards: Any,
    *,
    k: int,
    group_size: int,
    log_ratios: Any = None,
    selection: Any = None,
    sessions: Sequence[int] | None = None,
) -> np.ndarray:
    """Return one unscaled advantage a row (N,), for rows with the group ids `ids` (N,).

    `rewards` and the scores that select (N,) are NaN where there is none; `log_ratios` (N,) are in
    nats. Rows of a group with the same session (N,) are one sample. A group with fewer than
    `group_size` samples has lost the others. Raises as `advantages`.
    """
    rows = Rows(ids, group_size, sessions)
    groups = rows.groups(rewards, k, selection=selection)
    ratios = None if log_ratios is None else rows.log_ratios(log_ratios)
    return rows.of_rows(groups.advantages(objective, log_ratios=ratios))


def selection_scores(extra: Sequence[Any], key: str) -> np.ndarray:
    """Return the value of `key` of every row (N,), NaN for none, from verl's `extra_fields`.

    Raises InvalidValueError where no row has the key or its value is no number.
    """
    rows = [returned(fields) for fields in extra]
    names = {name for row in rows for name in row}
    if key not in names:
        listed = ", ".join(sorted(names)) or "no key at all"
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returns no {key!r}; it returned: {listed}"
        )
    try:
        return np.asarray([row.get(key) for row in rows], dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returned no number as {key!r}: {error}"
        ) from error


def returned(extra: Any) -> dict[str, Any]:
    """Return what the reward function returned of a row, from verl's `extra_fields` of it."""
    values = extra.get(_RETURNED) if isinstance(extra, dict) else None
    return values if isinstance(values, dict) else {}


def validation_metrics(
    sources: Sequence[str], ids: Sequence[str], columns: Mapping[str, Sequence[Any]], *, k: int
) -> dict[str, float]:
    """Return the metrics of every data source: max@k, pass@k and the share that is unscored.

    `sources` and `ids` are the data source and the prompt of every sample (N,), `columns` its
    `reward`, and tests `passed` and `total`; without these it passes with a reward of 1. The sizes
    are 1, 2, 4 .. n and the trained `k`; a prompt with fewer scored samples is left out of max@k.
    """
    rewards = np.asarray(columns["reward"], dtype=float)
    solved = _solved(rewards, columns)
    source_of_row = np.asarray(sources)
    metrics = {}
    for source in dict.fromkeys(sources):
        places = np.flatnonzero(source_of_row == source)
        rows = Rows([ids[int(place)] for place in places], group_size=1)
        metrics[f"val-aux/{source}/reward/unscored"] = float(np.isnan(rewards[places]).mean())
        for name, values in (("max", rewards), ("pass", solved)):
            table = rows.table(values[places])
            for size in logged_ks(table.shape[1], k):
                metrics[f"val-core/{source}/reward/{name}@{size}"] = mean_max_at_k(table, size)
    return metrics


def _solved(rewards: np.ndarray, columns: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Return 1 for each sample that passes and 0 for others, NaN for those without a reward."""
    solved = rewards >= 1
    if columns.get("passed") is not None and columns.get("total") is not None:
        tests = zip(columns["passed"], columns["total"], strict=True)
        # Passing none of no tests solves nothing.
        solved = np.asarray([bool(total) and passed == total for passed, total in tests])
    return np.where(np.isnan(rewards), np.nan, solved)
