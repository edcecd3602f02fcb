"""What a resumed training takes from its settings, where a checkpoint has it of earlier ones."""

from __future__ import annotations

from typing import Any

from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback


class SettingsOfNow(TrainerCallback):
    """Lets a training go on with the `logging_steps`, `save_steps` and length of its settings.

    transformers takes from the checkpoint how often something is logged, evaluated and saved, and
    for the first step the rate of the schedule that was planned there, which for one that has ended
    may be 0.
    """

    def on_train_begin(
        self, args: Any, state: Any, *_: Any, lr_scheduler: Any = None, **__: Any
    ) -> None:
        """Set these anew, behind the loading of a checkpoint and before the first step."""
        state.compute_steps(args, state.max_steps)
        if not isinstance(lr_scheduler, LambdaLR):  # as all are that have a length
            return
        groups = lr_scheduler.optimizer.param_groups
        schedules = zip(groups, lr_scheduler.base_lrs, lr_scheduler.lr_lambdas, strict=True)
        for group, rate, factor_at in schedules:
            group["lr"] = rate * factor_at(lr_scheduler.last_epoch)
