"""The numbers of rows with group ids, as verl's trainers hold them; needs no verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.engines.verl.options import WHERE
from maxatk.errors import InvalidValueError
from maxatk.objectives.layout import layout_of_ids
from maxatk.objectives.objective import Objective
from maxatk.statistics.groups import logged_ks, mean_max_at_k

_RETURNED = "reward_extra_info"  # verl's name for what the reward function returned


def advantages_of_rows(
    objective: Objective,
    ids: Any,
    rewards: Any,
    *,
    k: int,
    group_size: int,
    log_ratios: Any = None,
    selection: Any = None,
) -> np.ndarray:
    """Return one unscaled advantage a row (N,), for rows with the group ids `ids` (N,).

    `rewards` and the scores that select (N,) are NaN where there is none; `log_ratios` (N,) are in
    nats. A group with fewer than `group_size` rows has lost the others. Raises as `advantages`.
    """
    layout = layout_of_ids(ids, least=group_size)
    given = {"log_ratios": log_ratios, "selection": selection}
    beside = {name: layout.rows(name, x) for name, x in given.items() if x is not None}
    found = objective.advantages(layout.rows("rewards", rewards), k, **beside)
    return np.asarray(layout.of_samples(found))


def selection_scores(extra: Sequence[Any], key: str) -> np.ndarray:
    """Return the value of `key` of every row (N,), NaN for none, from verl's `extra_fields`.

    Raises InvalidValueError where no row has the key or its value is no number.
    """
    rows = [returned(one) for one in extra]
    known = {name for row in rows for name in row}
    if key not in known:
        names = ", ".join(sorted(known)) or "no key at all"
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returns no {key!r}; it returned: {names}"
        )
    try:
        return np.asarray([row.get(key) for row in rows], dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returned no number as {key!r}: {error}"
        ) from error


def returned(extra: Any) -> dict[str, Any]:
    """Return what the reward function returned of a row, from verl's `extra_fields` of it."""
    found = extra.get(_RETURNED) if isinstance(extra, dict) else None
    return found if isinstance(found, dict) else {}


def validation_metrics(
    sources: Sequence[str], ids: Sequence[str], columns: Mapping[str, Sequence[Any]], *, k: int
) -> dict[str, float]:
    """Return the metrics of every data source: max@k, pass@k and the share that is unscored.

    `sources` and `ids` are the data source and the prompt of every sample (N,), `columns` its
    `reward`, and tests `passed` and `total`; without these it passes with a reward of 1. The sizes
    are 1, 2, 4 .. n and the trained `k`; a prompt with fewer scored samples is left out of max@k.
    """
    rewards = np.asarray(columns["reward"], dtype=float)
    names, solved = np.asarray(sources), rewards >= 1
    if columns.get("passed") is not None and columns.get("total") is not None:
        tests = zip(columns["passed"], columns["total"], strict=True)
        solved = np.asarray([bool(t) and p == t for p, t in tests])  # a test is needed
    solved = np.where(np.isnan(rewards), np.nan, solved)
    found = {}
    for source in dict.fromkeys(sources):
        here = np.flatnonzero(names == source)
        layout = layout_of_ids([ids[int(row)] for row in here])
        found[f"val-aux/{source}/reward/unscored"] = float(np.isnan(rewards[here]).mean())
        for name, values in (("max", rewards), ("pass", solved)):
            table = layout.rows("reward", values[here])
            for size in logged_ks(layout.width, k):
                found[f"val-core/{source}/reward/{name}@{size}"] = mean_max_at_k(table, size)
    return found
