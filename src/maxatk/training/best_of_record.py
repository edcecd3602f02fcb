"""The record of a training by a trainer that knows nothing of it: what its reward function sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.conversations import transcript
from maxatk.objectives.objective import Objective
from maxatk.training.groups import Groups
from maxatk.training.keys import REWARD
from maxatk.training.record import TrainingRecord
from maxatk.training.values import group_values, mean_reward

# Of these a GRPO's log has the advantages that `best_of` returned.
_OF_ADVANTAGES = ("reward", "best_of/", "frac_reward_zero_std")


class BestOfRecord:
    """Writes groups.jsonl from the calls of a reward function of `best_of`.

    The steps are those of the column `trainer_state`, which TRL gives to reward functions; without
    it each call is a step. What TRL has logged since the last call is written at the next one.

    Args:
        folder: The folder of the training.
        objective: What is trained for.
    """

    def __init__(self, folder: str | Path, objective: Objective) -> None:
        self._folder = Path(folder)
        self._objective = objective
        self._record: TrainingRecord | None = None  # from the first call on, which knows the step
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
        if self._record is None or step < self._step:  # a training that begins, or goes back
            self._record = TrainingRecord(
                self._folder,
                self._objective,
                group_size=groups.size,
                steps=getattr(state, "max_steps", None),
                step=step - 1,
            )
            self._rows = len(getattr(state, "log_history", ()))  # of before it was resumed
        self._step = step
        self._write_log_of_trainer(self._record, state)
        texts = _by_group([transcript(completion) for completion in completions], groups.size)
        lengths = [len(ids) for ids in columns.get("completion_ids") or ()]
        ids = columns.get("problem_id") or columns.get("id") or ()
        self._record.add(
            step,
            groups,
            values,
            prompts=[transcript(prompt) for prompt in prompts[:: groups.size]],
            texts=texts,
            ids=ids[:: groups.size],
            tokens=_by_group(lengths, groups.size),
        )
        row = {REWARD: mean_reward(rewards), **group_values(groups, values, texts)}
        self._record.log(step, row)

    def _write_log_of_trainer(self, record: TrainingRecord, state: Any) -> None:
        rows = getattr(state, "log_history", [])
        for row in rows[self._rows :]:
            record.log(row["step"], {name: row[name] for name in row if _is_of_loss(name)})
        self._rows = len(rows)


def _is_of_loss(name: str) -> bool:
    return name != "step" and not name.startswith(_OF_ADVANTAGES)


def _by_group(values: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(values[start : start + size]) for start in range(0, len(values), size)]
