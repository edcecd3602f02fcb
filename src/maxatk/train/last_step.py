"""A training that is resumed behind its last step ends there."""

from __future__ import annotations

from typing import Any

from transformers import Trainer


class EndsAtLastStep(Trainer):
    """A trainer that takes no step from a checkpoint of the last one.

    A kill may come between that checkpoint and the folder of the model. transformers asks behind
    every step whether it was the last, and so takes one more.
    """

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)
