"""groups.jsonl of a training by verl, which `maxatk view` and `maxatk diagnose` read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxatk.check import is_number
from maxatk.engines.verl.loss import row_rewards
from maxatk.engines.verl.rows import returned
from maxatk.folders import writable
from maxatk.group_log import GROUPS, GroupLog, group_row, rounded, send_groups, shortened
from maxatk.objectives.objective import Objective

FIELDS = ("prompts", "responses", "extra_fields", "extra_info")  # of verl's batch, that are shown
OWN = "maxatk/"  # what keys of verl's log begin with that are named as in a training by TRL

_NAMES = {
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/kl_loss": "kl",
    "actor/pg_clipfrac": "clip_ratio/region_mean",
    "response_length/mean": "completions/mean_length",
    "response_length/clip_ratio": "completions/clipped_ratio",
    "timing_s/step": "step_time",
}
_ABOUT = ("method", "k", "delta_clamp", "advantage_scale", "max_weight")


class Record:
    """Writes it beside the checkpoints and to trackers: `most` groups of a step, and its log."""

    def __init__(
        self, config: Any, objective: Objective, *, step: int, steps: int, most: int
    ) -> None:
        about = {name: getattr(objective, name) for name in _ABOUT} | {"max_steps": steps}
        about |= {"form": "ppo", "num_generations": config.actor_rollout_ref.rollout.n}
        path = Path(config.trainer.default_local_dir) / GROUPS
        self._log = GroupLog(path, step=step, about=about)
        self._most, self._since = most, time.monotonic()
        self._trackers, self._unsent = config.trainer.logger, list[dict[str, Any]]()

    def add(self, step: int, data: Any, tokenizer: Any, groups: list[list[int]], *, k: int) -> None:
        """Write the first groups of a step; `data` has `FIELDS` and advantages, `groups` rows."""

        def text(column: str, row: int) -> str:
            return str(tokenizer.decode(data[column][row], skip_special_tokens=True))

        rewards, lines = row_rewards(data), []
        for rows in groups[: self._most]:
            samples = [
                {
                    "text": shortened(text("responses", row)),
                    "reward": rounded(rewards[row]),
                    "advantage": rounded(float(data["advantages"][row][0])),
                    "tokens": len(data["responses"][row]),
                    **_tested(returned(data["extra_fields"][row])),
                }
                for row in rows
            ]
            extra = data["extra_info"][rows[0]] if "extra_info" in data else None
            name = extra.get("id") if isinstance(extra, Mapping) else None
            prompt = text("prompts", rows[0])
            lines.append(group_row(step, name=name, prompt=prompt, k=k, samples=samples))
        self._log.append(lines)
        self._unsent += lines

    def log(self, step: int, metrics: Mapping[str, Any], *, ended: bool) -> None:
        """Write the row of a step's log, named as by TRL, and send the groups of the step."""
        own = {name: value for name, value in metrics.items() if name.startswith(OWN)}
        row = {name.removeprefix(OWN): float(value) for name, value in own.items()}
        row |= {_NAMES[name]: float(metrics[name]) for name in _NAMES.keys() & metrics.keys()}
        row |= {"train_runtime": time.monotonic() - self._since} if ended else {}
        self._log.append([{"step": step, "log": writable(row)}])
        send_groups(self._unsent, trackers=self._trackers, step=step)
        self._unsent = []


def _tested(extra: Mapping[str, Any]) -> dict[str, int]:
    passed, total = extra.get("passed"), extra.get("total")
    return {"passed": int(passed), "tests": int(total)} if is_number(passed) and total else {}
