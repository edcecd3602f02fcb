"""The log of a training in words: a line every `logging_steps`, a warning, and what moved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from transformers import TrainerCallback

LogRow: TypeAlias = Mapping[str, Any]

MOST_WITHOUT_SIGNAL = 0.5  # share of groups; above it most of the sampling teaches nothing
_SILENT = "frac_groups_without_signal"
_PART = 10  # the first and the last tenth of the log are compared


class LogLines(TrainerCallback):
    """Give every logged row of a training, as a line of text, to a function; once a warning too.

    The warning comes with the first tenth of the steps, where more than half of their groups had
    no signal. Only the main process writes.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._since = time.monotonic()
        self._rows: list[LogRow] = []

    def on_log(
        self,
        args: Any,  # noqa: ARG002
        state: Any,
        control: Any,  # noqa: ARG002
        logs: LogRow | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Write the line of a row; rows without a reward are summaries of transformers."""
        if not state.is_world_process_zero or logs is None or "reward" not in logs:
            return
        now = time.monotonic()
        place = f"step {state.global_step} of {state.max_steps}"
        self._write(f"{place}: {log_line(logs)}, {now - self._since:.1f} s")
        self._since = now
        early = _PART * state.global_step <= state.max_steps
        before = signal_warning(self._rows)
        self._rows.append(logs)
        if early and before is None and (warning := signal_warning(self._rows)) is not None:
            self._write(f"warning: {warning}")


def log_line(row: LogRow) -> str:
    """Return what a row of the log says of rewards, max@k, KL, signal and length."""
    parts = [f"reward {row['reward']:.3f}", *(f"{n} {row[n]:.3f}" for n in _shown_metrics(row))]
    if "kl" in row:  # logged with beta alone: otherwise there is no reference model
        parts.append(f"KL {row['kl']:.4f}")
    if row.get(_SILENT, 0) > MOST_WITHOUT_SIGNAL:
        parts.append(f"{row[_SILENT]:.0%} of the groups without signal")
    if "completions/clipped_ratio" in row:
        parts.append(f"{row['completions/clipped_ratio']:.1%} cut off by length")
    return ", ".join(parts)


def _shown_metrics(row: LogRow) -> list[str]:
    """Return max@1, max@k of the trained k, and max@n, as far as they are logged."""
    logged = [int(name[4:]) for name in row if name.startswith("max@")]
    wanted = {1, int(row.get("objective/k", 1)), max(logged, default=1)}
    return [f"max@{k}" for k in sorted(wanted) if k in logged]


def signal_warning(rows: Sequence[LogRow]) -> str | None:
    """Return a warning where more than half of the groups of some rows had no signal, or None."""
    silent = [row[_SILENT] for row in rows if _SILENT in row]
    if not silent or np.mean(silent) <= MOST_WITHOUT_SIGNAL:
        return None
    return (
        f"{np.mean(silent):.0%} of the groups had no signal: all their rewards were equal, so that "
        "they taught nothing; other problems (maxatk problems select), more samples a prompt "
        "or a reward with partial credit give one"
    )


def first_and_last(rows: Sequence[LogRow]) -> dict[str, tuple[float, float]]:
    """Return the means of max@1, max@k and max@n over the first and the last tenth of a log.

    The prompts of the two differ. The tenths have one row at least; a log with fewer than two rows
    has nothing to compare, and the result is empty. Values that are not finite are left out.
    """
    logged = [row for row in rows if "reward" in row]
    if len(logged) < 2:
        return {}
    part = max(1, len(logged) // _PART)
    found = {}
    for name in _shown_metrics(logged[-1]):
        first, last = (_mean(some, name) for some in (logged[:part], logged[-part:]))
        if first is not None and last is not None:
            found[name] = (first, last)
    return found


def _mean(rows: Sequence[LogRow], name: str) -> float | None:
    known = [row[name] for row in rows if np.isfinite(row.get(name, np.nan))]
    return float(np.mean(known)) if known else None
