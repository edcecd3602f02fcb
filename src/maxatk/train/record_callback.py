"""The record of a training as a callback of transformers, which knows when a training begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from maxatk.training import TrainingRecord


class RecordCallback(TrainerCallback):
    """Opens the record when the training begins, and writes the rows of the log into it.

    `record` is None before, and in every process but the first. With a row of the log its groups go
    to W&B and trackio, unless TRL's `log_completions` sends the whole rollout batch.
    """

    def __init__(self) -> None:
        self.record: TrainingRecord | None = None

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Open the file, without what it holds of steps that are taken again."""
        if state.is_world_process_zero:
            self.record = TrainingRecord(
                args.output_dir,
                args.objective,
                group_size=args.num_generations,
                steps=state.max_steps,
                step=state.global_step,
                most=args.log_groups,
            )

    def on_log(
        self, args: Any, state: Any, *_: Any, logs: Mapping[str, Any] | None = None, **__: Any
    ) -> None:
        """Write a row of the log, and send the groups of its step where texts are shown."""
        if self.record is None or logs is None:
            return
        self.record.log(state.global_step, logs)
        # Evaluations and the summary at the end have no loss, and no groups of their own.
        if "loss" in logs and not args.log_completions:
            step = {"train/global_step": state.global_step}
            self.record.send(args.report_to, beside=step)
