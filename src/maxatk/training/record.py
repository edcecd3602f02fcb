"""The record of a training by any trainer: what `maxatk view` and `maxatk diagnose` read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from maxatk.check import as_path, whole
from maxatk.folders import json_of, writable
from maxatk.objectives.checks import as_k
from maxatk.objectives.objective import Objective
from maxatk.objectives.setting import setting_of
from maxatk.training.group_log import GROUPS, GroupLog, group_row, rounded, shortened
from maxatk.training.groups import Groups
from maxatk.training.record_checks import as_step, as_table, check_columns
from maxatk.training.trackers import send_groups


class TrainingRecord:
    """Writes groups.jsonl into the folder of a training: some groups of every step, and its log.

    Args:
        folder: That of the training, with its checkpoints; made where it is missing.
        objective: What is trained for.
        group_size: The samples of a group.
        steps: The optimizer steps of the whole training, None where nobody knows.
        step: The optimizer step that the training goes on from; later ones are dropped.
        most: The groups of a step that are kept, the first ones; shared by its rollout batches.
        batches: The rollout batches of an optimizer step.

    Raises InvalidValueError for what the objective does not allow in groups of this size, for
    numbers that are not allowed, and for a groups.jsonl in the folder that no training has written.
    """

    def __init__(
        self,
        folder: str | Path,
        objective: Objective,
        *,
        group_size: int,
        steps: int | None,
        step: int = 0,
        most: int = 8,
        batches: int = 1,
    ) -> None:
        group_size = as_k(group_size, field="group_size")
        objective.check_group_size(group_size)
        whole("most", most, 0)
        whole("batches", batches, 1)
        step = as_step(step, 0)
        if steps is not None:
            steps = as_step(steps, 0, field="steps")
        about = {
            "method": setting_of(objective.method),
            "k": objective.k,
            "num_generations": group_size,
            "form": objective.form,
            "delta_clamp": objective.delta_clamp,
            "advantage_scale": objective.advantage_scale,
            "max_weight": objective.max_weight,
            "max_steps": steps,
        }
        self._file = GroupLog(as_path("folder", folder) / GROUPS, step=step, about=about)
        self._most_of_step = most
        self.most = -(-most // batches)
        """The groups of a rollout batch that are kept at most."""
        self._step = step
        self._room = most  # for further groups of `_step`
        self._unsent: list[dict[str, Any]] = []
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since this record was opened."""
        return time.monotonic() - self._began

    def add(
        self,
        step: int,
        groups: Groups,
        advantages: np.ndarray,
        *,
        prompts: Sequence[str],
        texts: Sequence[Sequence[str]],
        ids: Sequence[Any] = (),
        tokens: Sequence[Sequence[int]] = (),
        rewards: Mapping[str, np.ndarray] = MappingProxyType({}),
        tests: Sequence[Sequence[Mapping[str, Any] | None]] = (),
    ) -> None:
        """Write the first groups of a rollout batch, which optimizer step `step` trains on first.

        Args:
            step: Counted from 1.
            groups: The batch.
            advantages: (P, n), as the loss gets them.
            prompts: The text of each prompt, one a group; of the first groups alone is enough.
            texts: The completions of each group, fewer than n where a trainer has lost samples.
            ids: The problem's id of each prompt, None where it has none. What JSON lacks, such as
                a date, is written as text, here and in the log.
            tokens: The length of each completion.
            rewards: (P, n) by name, where several rewards are summed.
            tests: What tests said of each completion, such as `{"passed": 3, "tests": 10}`.

        Raises InvalidValueError, before anything is written, for a step that is no integer of 1 or
        more, for tables of another shape, and for lists of another length than these.
        """
        step = as_step(step, 1)
        tables = {
            "reward": groups.rewards,
            "selection": groups.selection,
            "answer": groups.answers,
            "advantage": as_table("advantages", advantages, groups.rewards.shape),
        }
        parts = {
            part: as_table(f"rewards[{part!r}]", table, groups.rewards.shape)
            for part, table in rewards.items()
        }
        check_columns(groups, prompts=prompts, texts=texts, ids=ids, tokens=tokens, tests=tests)
        lines = []
        for group in range(self._take_room(step, len(prompts))):
            samples = []
            for place, text in enumerate(texts[group]):
                sample: dict[str, Any] = {"text": shortened(text)}
                sample |= _at(tables, group, place)
                if len(tokens) > 0:
                    sample["tokens"] = rounded(tokens[group][place])
                if parts:
                    sample["rewards"] = _at(parts, group, place)
                if len(tests) > 0:
                    sample |= tests[group][place] or {}
                samples.append(sample)
            name = json_of(ids[group]) if len(ids) > 0 else None
            line = group_row(step, name=name, prompt=prompts[group], k=groups.k, samples=samples)
            lines.append(writable(line))
        self._file.append(lines)
        self._unsent += lines

    def _take_room(self, step: int, groups: int) -> int:
        """Return how many of these groups are kept, which leaves less room for those to come."""
        if step != self._step:
            self._step = step
            self._room = self._most_of_step
            self._unsent = []  # of steps that no row of the log came after
        kept = min(self._room, self.most, groups)
        self._room -= kept
        return kept

    def log(self, step: int, row: Mapping[str, Any]) -> None:
        """Write a row of the log after an optimizer step; numbers that are not finite are None.

        Raises InvalidValueError for a step that is no integer of 0 or more.
        """
        self._file.append([{"step": as_step(step, 0), "log": writable(row)}])

    def send(
        self,
        trackers: Sequence[str],
        *,
        step: int | None = None,
        beside: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Send the groups since the last call to W&B and trackio, as `trackers.send_groups`."""
        send_groups(self._unsent, trackers=trackers, step=step, beside=beside)
        self._unsent = []


def _at(tables: Mapping[str, np.ndarray | None], group: int, place: int) -> dict[str, float | None]:
    """Return the numbers of one sample from tables (P, n), without those that are None."""
    return {
        name: rounded(table[group, place]) for name, table in tables.items() if table is not None
    }
