"""What a training records for `maxatk view`: some groups of every optimizer step, and its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from accelerate.utils import gather_object
from transformers import TrainerCallback

from maxatk.evaluation.failures import failure_of
from maxatk.folders import writable
from maxatk.group_log import GROUPS, GroupLog, group_row, rounded, send_groups, shortened
from maxatk.records import TestCase, Verdict

if TYPE_CHECKING:
    from maxatk.train.rollouts import Rollout

_ABOUT = ("method", "k", "num_generations", "form", "delta_clamp", "advantage_scale", "max_weight")


def tested(rows: Sequence[Mapping[str, Any]], rewards: Sequence[Any]) -> list[Any]:
    """Return what tests said of the completions of the last call of the reward functions.

    One object for each row of the data set: tests that passed, their number, the outcome, and the
    first that failed. None for all where no function verified them together.
    """
    found = (getattr(reward, "verdicts", None) for reward in rewards)
    verdicts = next((each for each in found if each and len(each) == len(rows)), None)
    if verdicts is None or not all(_has_tests(*pair) for pair in zip(rows, verdicts, strict=True)):
        return [None] * len(rows)
    return [_told(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)]


def _has_tests(row: Mapping[str, Any], verdict: Verdict) -> bool:
    return len(row.get("tests") or ()) == verdict.total


def _told(row: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    def test_at(place: int) -> TestCase:
        test = row["tests"][place]
        return test if isinstance(test, TestCase) else TestCase.from_json(test)

    failure = failure_of(verdict, test_at, problem_id="", sample=0)
    told = {"passed": verdict.passed, "tests": verdict.total, "outcome": str(verdict.outcome)}
    if failure is None:
        return told
    shown = failure.to_json()
    del shown["sample"]
    return {**told, "failure": shown}


class Record(TrainerCallback):
    """Writes groups.jsonl in the folder of a trainer: at most `log_groups` groups a step.

    With a row of the log the groups of its step go to W&B and trackio, unless `log_completions`
    lets TRL send them. Every process takes part in `add`; the main one writes.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._log: GroupLog | None = None
        self._step, self._written = 0, 0  # groups of that step
        self._unsent: list[dict[str, Any]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Open the file, without what it holds of steps that are taken again."""
        if not state.is_world_process_zero:
            return
        about = {name: getattr(args, name) for name in _ABOUT} | {"max_steps": state.max_steps}
        path = Path(args.output_dir) / GROUPS
        self._log = GroupLog(path, step=state.global_step, about=about)

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,  # noqa: ARG002
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Write a row of the log, and send the groups of its step where texts are shown."""
        if self._log is None or logs is None:
            return
        self._log.append([{"step": state.global_step, "log": writable(logs)}])
        if "loss" in logs and not args.log_completions:
            beside = {"train/global_step": state.global_step}
            send_groups(self._unsent, trackers=args.report_to, beside=beside)
            self._unsent = []

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def add(
        self,
        rollout: Rollout,
        advantages: np.ndarray,
        *,
        rows: Sequence[Mapping[str, Any]],
        tokens: np.ndarray,
    ) -> None:
        """Record the first groups of a rollout batch as far as the step has room.

        `advantages` (P * n,) are those of the loss and `tokens` (P * n,) the lengths; `rows` are
        those of the data set in this process.
        """
        ids = gather_object([row.get("problem_id") for row in rows])
        if self._log is None:
            return
        step = self._trainer.state.global_step + 1
        if step != self._step:
            self._step, self._written, self._unsent = step, 0, []
        most = min(self._trainer.args.log_groups - self._written, len(rollout.rewards))
        self._written += max(most, 0)
        size = rollout.rewards.shape[1]
        logs, count = self._trainer._logs, rollout.rewards.size
        prompts = [_text(prompt) for prompt in list(logs["prompt"])[-count:]]
        named = {name: list(values)[-count:] for name, values in logs["rewards"].items()}
        columns = {**_columns(rollout), "advantage": advantages, "tokens": tokens}
        lines = []
        for first in range(0, most * size, size):
            samples = [
                {
                    "text": shortened(rollout.texts[row]),
                    **{name: rounded(values[row]) for name, values in columns.items()},
                    **({"rewards": _at(named, row)} if len(named) > 1 else {}),
                    **(rollout.tested[row] or {}),
                }
                for row in range(first, first + size)
            ]
            about = {"name": ids[first], "prompt": prompts[first], "k": rollout.k}
            lines.append(group_row(step, **about, samples=samples))
        self._unsent += lines
        self._log.append(lines)


def _columns(rollout: Rollout) -> dict[str, np.ndarray]:
    """Return the numbers of the samples, each (P * n,)."""
    found = {"reward": rollout.rewards.reshape(-1)}
    for name, values in (
        ("selection", rollout.beside.selection),
        ("answer", rollout.beside.answers),
    ):
        if values is not None:
            found[name] = values.reshape(-1)
    return found


def _at(named: Mapping[str, Sequence[float]], row: int) -> dict[str, float | None]:
    return {name: rounded(values[row]) for name, values in named.items()}


def _text(prompt: Any) -> str:
    """Return a prompt as one text: the only message of a conversation, or all with their roles."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return str(prompt[0].get("content"))
    return "\n\n".join(f"{turn.get('role')}: {turn.get('content')}" for turn in prompt)
