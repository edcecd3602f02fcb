"""The numbers of rows with group ids, as verl's trainers hold them; needs no verl."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxatk.check import returned_number, shown
from maxatk.errors import InvalidValueError
from maxatk.objectives.layout import layout_of_ids
from maxatk.objectives.metrics import passes
from maxatk.objectives.objective import Objective
from maxatk.training.groups import Groups
from maxatk.training.rows import Rows
from maxatk.training.values import logged_ks, mean_max_at_k
from maxatk.verl.options import WHERE

_RETURNED = "reward_extra_info"  # verl's name for what the reward function returned


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedRows:
    """The rows of a batch (N,) that have a trained token, as samples of groups; others get 0.

    Without one are the rows with which verl fills a batch, an output of an agent that others wrote,
    and what rejection sampling has masked. A sample of such rows alone is one that its group lost.
    Rows of a group with the same session are one sample.
    """

    ids: Sequence[str]  # (N,), of the groups
    group_size: int
    sessions: Sequence[int] | None = None  # (N,)
    tokens: npt.NDArray[Any] | None = None  # (N,), how many are trained; None where all rows are

    @functools.cached_property
    def places(self) -> npt.NDArray[np.intp]:
        """The places of the rows in the batch."""
        if self.tokens is None:
            return np.arange(len(self.ids))
        return np.flatnonzero(self.tokens)

    @functools.cached_property
    def _rows(self) -> Rows:
        places = self.places.tolist()
        ids = [self.ids[place] for place in places]
        if self.sessions is None:
            return Rows(ids, self.group_size)
        sessions = [self.sessions[place] for place in places]
        return Rows(ids, self.group_size, sessions)

    @property
    def members(self) -> list[list[list[int]]]:
        """The places in the batch of the rows of each sample of each group."""
        return [[self.places[rows].tolist() for rows in group] for group in self._rows.members]

    def groups(self, rewards: Any, k: int, *, selection: Any = None) -> Groups:
        """Return the groups of rewards (N,), and of scores that select (N,)."""
        scores = None if selection is None else np.asarray(selection)[self.places]
        return self._rows.groups(np.asarray(rewards)[self.places], k, selection=scores)

    def log_ratios(self, of_rows: Any) -> np.ndarray:
        """Return log ratios (N,) as those of samples (P, n): the sum over the rows of each."""
        return self._rows.log_ratios(np.asarray(of_rows)[self.places])

    def of_batch(self, table: np.ndarray) -> np.ndarray:
        """Return values of groups (P, n) as those of all rows of the batch (N,)."""
        values = np.zeros(len(self.ids))
        values[self.places] = self._rows.of_rows(table)
        return values


def advantages_of_rows(
    objective: Objective,
    rows: TrainedRows,
    rewards: Any,
    *,
    k: int,
    log_ratios: Any = None,
    selection: Any = None,
) -> np.ndarray:
    """Return one unscaled advantage a row of a batch (N,), 0 for rows without a trained token.

    `rewards` and the scores that select (N,) are NaN where there is none; `log_ratios` (N,) are in
    nats. A group with fewer samples than the size of `rows` has lost the others. Raises as
    `advantages`.
    """
    if not len(rows.places):
        return np.zeros(len(rows.ids))
    groups = rows.groups(rewards, k, selection=selection)
    ratios = None if log_ratios is None else rows.log_ratios(log_ratios)
    return rows.of_batch(groups.advantages(objective, log_ratios=ratios))


def selection_scores(extra: Sequence[Any], key: str) -> np.ndarray:
    """Return the value of `key` of every row (N,), NaN for none, from verl's `extra_fields`.

    Raises InvalidValueError where no row has the key or its value is no finite number, NaN or None.
    """
    rows = [returned(fields) for fields in extra]
    names = {name for row in rows for name in row}
    if key not in names:
        listed = ", ".join(sorted(names)) or "no key at all"
        raise InvalidValueError(
            f"{WHERE}.selection: the reward function returns no {key!r}; it returned: {listed}"
        )
    scores = np.full(len(rows), np.nan)
    for place, row in enumerate(rows):
        value = row.get(key)
        if value is None:
            continue
        number = returned_number(value)
        if number is None:
            raise InvalidValueError(
                f"{WHERE}.selection: the reward function must return a finite number or None as "
                f"{key!r}, got {shown(value)}"
            )
        scores[place] = number
    return scores


def returned(extra: Any) -> dict[str, Any]:
    """Return what the reward function returned of a row, from verl's `extra_fields` of it."""
    values = extra.get(_RETURNED) if isinstance(extra, dict) else None
    return values if isinstance(values, dict) else {}


def validation_metrics(
    sources: Sequence[str], ids: Sequence[str], columns: Mapping[str, Sequence[Any]], *, k: int
) -> dict[str, float]:
    """Return the metrics of every data source: max@k, pass@k and the share that is unscored.

    `sources` and `ids` are the data source and the prompt of every sample (N,), `columns` its
    `reward`, and tests `passed` and `total`; a sample without these, None, passes with a reward of
    1. The sizes are 1, 2, 4 .. n and the trained `k`; a prompt with fewer scored samples is left
    out of max@k.
    """
    rewards = np.asarray(columns["reward"], dtype=float)
    solved = _solved(rewards, columns)
    source_of_row = np.asarray(sources)
    metrics = {}
    for source in dict.fromkeys(sources):
        places = np.flatnonzero(source_of_row == source)
        layout = layout_of_ids([ids[int(place)] for place in places])
        metrics[f"val-aux/{source}/reward/unscored"] = float(np.isnan(rewards[places]).mean())
        for name, values in (("max", rewards), ("pass", solved)):
            table = layout.rows("rewards", values[places])
            for size in logged_ks(table.shape[1], k):
                metrics[f"val-core/{source}/reward/{name}@{size}"] = mean_max_at_k(table, size)
    return metrics


def _solved(rewards: np.ndarray, columns: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Return 1 for each sample that passes and 0 for others, NaN for those without a reward."""
    solved = passes(rewards)
    passed = columns.get("passed")
    total = columns.get("total")
    if passed is not None and total is not None:
        for place, (tests_passed, tests) in enumerate(zip(passed, total, strict=True)):
            # verl fills the columns with None for a reward function that counts no tests.
            if tests is not None:  # what tests say comes before the reward
                # A sample that was run on no test has solved nothing.
                solved[place] = tests > 0 and tests_passed == tests
    return np.where(np.isnan(rewards), np.nan, solved)
