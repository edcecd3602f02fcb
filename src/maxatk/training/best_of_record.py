"""The record of a training by a trainer that knows nothing of it: what its reward function sees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.conversations import transcript
from maxatk.folders import writable
from maxatk.objectives.objective import Objective
from maxatk.training.group_log import GROUPS, logged_rows, refuse_other_file
from maxatk.training.groups import Groups, in_groups
from maxatk.training.keys import REWARD
from maxatk.training.record import TrainingRecord
from maxatk.training.values import group_values, mean_reward

# Of these a GRPO's log has the advantages that `best_of` returned.
_OF_ADVANTAGES = ("reward", "best_of/", "frac_reward_zero_std")

# The same of held-out samples, and what `best_of` logs of them; one of several sets has a name.
_HELD_OUT_ADVANTAGES = re.compile(r"eval_(.+_)?(reward(_std|s/.+)?|frac_reward_zero_std)")
_HELD_OUT = re.compile(r"^(eval_(?:.+_)?)best_of/(.+)")


class BestOfRecord:
    """Writes groups.jsonl from the calls of a reward function of `best_of`.

    The steps are those of the column `trainer_state`, which TRL gives to reward functions; without
    it each call is a step. What TRL has logged since the last call is written at the next one, also
    where a training is resumed in between.

    Args:
        folder: The folder of the training.
        objective: What is trained for.

    Raises InvalidValueError where the folder has a groups.jsonl that no training has written.
    """

    def __init__(self, folder: str | Path, objective: Objective) -> None:
        self._folder = Path(folder)
        refuse_other_file(self._folder / GROUPS)
        self._objective = objective
        self._record: TrainingRecord | None = None  # from the first call on, which knows the step
        self._state: Any = None  # of the trainer, which makes a new one for every training
        self._step = 0  # of the last call
        self._rows = 0  # of the trainer's log that are written

    def add(
        self,
        rewards: np.ndarray,
        values: np.ndarray,
        *,
        prompts: Any,
        completions: Any,
        columns: dict[str, Any],
    ) -> None:
        """Write the groups of a call, with rewards and n A_i (P, n), and their row of the log."""
        state = columns.get("trainer_state")
        if not getattr(state, "is_world_process_zero", True):
            return
        step = self._step + 1 if state is None else state.global_step + 1
        groups = Groups(rewards, k=self._objective.k)
        if self._record is None or state is not self._state:
            self._record = TrainingRecord(
                self._folder,
                self._objective,
                group_size=groups.size,
                steps=getattr(state, "max_steps", None),
                step=step - 1,
            )
            self._state = state
            self._write_what_is_missing(self._record, state)
        self._step = step
        self._write_log_of_trainer(self._record, state)
        texts = in_groups([transcript(completion) for completion in completions], groups.size)
        lengths = [len(tokens) for tokens in _first_of(columns, "completion_ids")]
        ids = _first_of(columns, "problem_id", "id")
        self._record.add(
            step,
            groups,
            values,
            prompts=[transcript(prompt) for prompt in prompts[:: groups.size]],
            texts=texts,
            ids=ids[:: groups.size],
            tokens=in_groups(lengths, groups.size),
        )
        row = {REWARD: mean_reward(rewards), **group_values(groups, values, texts)}
        self._record.log(step, row)

    def _write_what_is_missing(self, record: TrainingRecord, state: Any) -> None:
        """Write the rows that a checkpoint has kept and a killed process had not written yet."""
        written = list(logged_rows(self._folder / GROUPS))
        rows = getattr(state, "log_history", [])
        for row in rows:
            row_of_loss = writable(_of_loss(row))
            if (row["step"], row_of_loss) not in written:
                record.log(row["step"], row_of_loss)
        self._rows = len(rows)

    def _write_log_of_trainer(self, record: TrainingRecord, state: Any) -> None:
        rows = getattr(state, "log_history", [])
        for row in rows[self._rows :]:
            record.log(row["step"], _of_loss(row))
        self._rows = len(rows)


def _of_loss(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the trainer's log without its step and what it says of advantages.

    What `best_of` logged of held-out samples has the names that it has in other trainings.
    """
    return {
        _HELD_OUT.sub(r"\1\2", name): value
        for name, value in row.items()
        if name != "step"
        and not name.startswith(_OF_ADVANTAGES)
        and not _HELD_OUT_ADVANTAGES.fullmatch(name)
    }


def _first_of(columns: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these columns that is there, without entries where none is."""
    for name in names:
        if columns.get(name) is not None:
            return columns[name]
    return ()
