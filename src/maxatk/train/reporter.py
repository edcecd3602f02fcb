"""What a training tells whoever waits for it: steps, lines of its log, and warnings."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from maxatk.training import findings
from maxatk.training.keys import REWARD
from maxatk.training.summary import PARTS, log_line
from maxatk.training.symptoms import LogRow

# Rows of a log that are judged: at least so many, after a tenth of the training or so many rows.
_FEWEST = 3
_ENOUGH = 10


@dataclasses.dataclass(eq=False)
class Reporter(TrainerCallback):
    """Tells a function the steps, done and in all, and another one the log, a line for each row."""

    progress: Callable[[int, int], object] | None
    write: Callable[[str], None] | None = None
    since: float = dataclasses.field(default_factory=time.monotonic)  # the line before
    warned_of: set[str] = dataclasses.field(default_factory=set)

    def on_step_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Report an optimizer step."""
        if self.progress is not None:
            self.progress(state.global_step, state.max_steps)

    def on_log(
        self, _args: Any, state: Any, *_: Any, logs: LogRow | None = None, **__: Any
    ) -> None:
        """Write the line of a row; rows without a reward are summaries of transformers."""
        if not (self.write and state.is_world_process_zero and logs and REWARD in logs):
            return
        now = time.monotonic()
        step = f"step {state.global_step} of {state.max_steps}"
        self.write(f"{step}: {log_line(logs)}, {now - self.since:.1f} s")
        self.since = now
        rows = sum(REWARD in row for row in state.log_history)
        late_enough = PARTS * state.global_step >= state.max_steps or rows >= _ENOUGH
        if rows < _FEWEST or not late_enough:
            return
        for finding in findings(state.log_history):
            if finding.symptom.name not in self.warned_of:
                self.write(f"warning: {finding}")
                self.warned_of.add(finding.symptom.name)
