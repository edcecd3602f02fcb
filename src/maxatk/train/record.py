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
    from maxatk.train.rollouts import Rollout, Scored

_ABOUT = ("method", "k", "num_generations", "form", "delta_clamp", "advantage_scale", "max_weight")


def tested(rows: Sequence[Mapping[str, Any]], rewards: Sequence[Any]) -> list[Any]:
    """Return what tests said of the rows in the last call of reward functions; None for nothing."""
    found = (getattr(reward, "verdicts", None) for reward in rewards)
    verdicts = next((each for each in found if each and len(each) == len(rows)), None)
    pairs = list(zip(rows, verdicts or [], strict=False))
    if verdicts is None or any(len(row.get("tests") or ()) != v.total for row, v in pairs):
        return [None] * len(rows)
    return [_told(row["tests"], verdict) for row, verdict in pairs]


def _told(tests: Sequence[Any], verdict: Verdict) -> dict[str, Any]:
    def test_at(place: int) -> TestCase:
        test = tests[place]
        return test if isinstance(test, TestCase) else TestCase.from_json(test)

    outcome = str(verdict.outcome)
    told: dict[str, Any] = {"passed": verdict.passed, "tests": verdict.total, "outcome": outcome}
    failure = failure_of(verdict, test_at, problem_id="", sample=0)
    if failure is not None:
        told["failure"] = failure.to_json()
        del told["failure"]["sample"]
    return told


class Record(TrainerCallback):
    """Writes groups.jsonl in the folder of a trainer: at most `log_groups` groups a step.

    With a row of the log its groups go to W&B and trackio, unless TRL's `log_completions` does it.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._log: GroupLog | None = None
        self._step = self._room = 0  # for groups of that step
        self._unsent: list[dict[str, Any]] = []

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Open the file, without what it holds of steps that are taken again."""
        if state.is_world_process_zero:
            about = {name: getattr(args, name) for name in _ABOUT} | {"max_steps": state.max_steps}
            path = Path(args.output_dir) / GROUPS
            self._log = GroupLog(path, step=state.global_step, about=about)

    def on_log(
        self, args: Any, state: Any, *_: Any, logs: Mapping[str, Any] | None = None, **__: Any
    ) -> None:
        """Write a row of the log, and send the groups of its step where texts are shown."""
        if self._log is None or logs is None:
            return
        self._log.append([{"step": state.global_step, "log": writable(logs)}])
        if "loss" in logs and not args.log_completions:
            beside = {"train/global_step": state.global_step}
            send_groups(self._unsent, trackers=args.report_to, beside=beside)
            self._unsent = []

    def add(
        self, rollout: Rollout, scored: Scored, rows: list[Any], flat: Mapping[str, np.ndarray]
    ) -> None:
        """Record groups: `rows` are of this process, `flat` further values of samples, (P * n,)."""
        ids = gather_object([row.get("problem_id") for row in rows])
        if self._log is None:
            return
        step = self._trainer.state.global_step + 1
        if step != self._step:
            self._step, self._unsent, self._room = step, [], self._trainer.args.log_groups
        most = min(self._room, len(rollout.rewards))
        self._room -= most
        size, logs = rollout.rewards.shape[1], self._trainer._logs
        count = rollout.rewards.size  # of the last rows that TRL has logged
        prompts = list(logs["prompt"])[-count:]
        named = {name: list(values)[-count:] for name, values in logs["rewards"].items()}
        of_groups = {"selection": rollout.selection, "answer": rollout.answers}
        tables = {"reward": rollout.rewards, **of_groups, **flat}
        columns = {name: table.reshape(-1) for name, table in tables.items() if table is not None}
        lines = []
        for first in range(0, most * size, size):
            samples = []
            for row in range(first, first + size):
                sample: dict[str, Any] = {"text": shortened(scored.texts[row])}
                sample |= {name: rounded(values[row]) for name, values in columns.items()}
                if len(named) > 1:
                    sample["rewards"] = {name: rounded(each[row]) for name, each in named.items()}
                samples.append(sample | (scored.tested[row] or {}))
            about = {"name": ids[first], "prompt": _text(prompts[first]), "k": rollout.k}
            lines.append(group_row(step, **about, samples=samples))
        self._unsent += lines
        self._log.append(lines)


def _text(prompt: Any) -> str:
    """Return a prompt as one text: the only message of a conversation, or all with their roles."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return str(prompt[0].get("content"))
    return "\n\n".join(f"{turn.get('role')}: {turn.get('content')}" for turn in prompt)
