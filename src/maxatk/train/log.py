"""The log of a training: what it holds beside TRL's metrics, and what it says in words.

TRL averages the values of each key between two rows of the log.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from transformers import TrainerCallback

from maxatk.folders import known
from maxatk.objectives import effective_sample_size
from maxatk.records import Outcome
from maxatk.statistics.symptoms import (
    FAILED,
    MOST_WITHOUT_SIGNAL,
    SILENT,
    WITHOUT,
    LogRow,
    findings,
    group_size,
    values,
)

Metrics: TypeAlias = Mapping[str, list[float]]

OUTCOMES = (Outcome.TIME_LIMIT, Outcome.INFRA_ERROR)
_LACKING = {WITHOUT: "without a reward", FAILED: "for which the reward failed"}
_PART = 10  # the first and the last tenth of the log are compared
_FEWEST, _ENOUGH = 3, 10  # rows of a log that are judged: of its first tenth, and of any


class Clock:
    """Measures parts of a training step; a part inside another counts for the inner one only."""

    def __init__(self) -> None:
        self.total = 0.0

    @contextlib.contextmanager
    def measure(self, name: str, metrics: Metrics) -> Iterator[None]:
        """Append the seconds spent inside, without those of inner parts, as `seconds/<name>`."""
        start, before = time.perf_counter(), self.total
        yield
        spent = time.perf_counter() - start - (self.total - before)
        self.total += spent
        metrics["seconds/" + name].append(spent)


def log_deviations(metrics: Metrics, log_ratios: np.ndarray, *, clamp: float | None) -> None:
    """Log how far the policy has moved from the one that sampled: log ratios in nats, any shape."""
    deviation = np.abs(np.expm1(np.clip(log_ratios, -50, 50)))
    metrics["ratio/mean_abs_delta"].append(float(deviation.mean()))
    metrics["ratio/max_abs_delta"].append(float(deviation.max()))
    bound = np.inf if clamp is None else clamp
    metrics["ratio/clamped"].append(float((deviation > bound).mean()))


def log_ratios(metrics: Metrics, log_ratios: np.ndarray, *, k: int, clamp: float | None) -> None:
    """Log the same of whole groups (P, n), and the effective size of their subset weights."""
    log_deviations(metrics, log_ratios, clamp=clamp)
    share = effective_sample_size(log_ratios, min(k, log_ratios.shape[1]), clamp=clamp)
    metrics["ratio/effective_samples"].append(float(share.mean()))


def log_outcomes(metrics: Metrics, reward: Any, accelerator: Any) -> None:
    """Log the shares of tests that met the time limit or a failure of the verifier.

    `reward` is a reward function; one without `verdicts` (see `CodeReward`) is left out.
    Of a `Reward` the share of completions is logged that it failed for, whatever they were worth.
    """
    device = accelerator.device
    if (failed := getattr(reward, "failed", None)) is not None:
        share = accelerator.reduce(torch.tensor(failed, device=device), reduction="mean")
        metrics[FAILED].append(float(share))
    if (verdicts := getattr(reward, "verdicts", None)) is None:
        return
    found = [test.outcome for verdict in verdicts for test in verdict.tests]
    own = [*map(found.count, OUTCOMES), len(found)]
    *shares, total = accelerator.reduce(
        torch.tensor(own, dtype=torch.float64, device=device)
    ).tolist()
    for outcome, count in zip(OUTCOMES, shares, strict=True):
        metrics[f"verifier/{outcome.value}"].append(count / max(total, 1.0))


class LogLines(TrainerCallback):
    """Give every logged row of a training, as a line of text, to a function; each finding once.

    Findings come from three rows and a tenth of the steps on, or from ten rows on. Only the main
    process writes.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._since = time.monotonic()
        self._said: set[str] = set()

    def on_log(
        self, _args: Any, state: Any, *_: Any, logs: LogRow | None = None, **__: Any
    ) -> None:
        """Write the line of a row; rows without a reward are summaries of transformers."""
        if not state.is_world_process_zero or logs is None or "reward" not in logs:
            return
        now = time.monotonic()
        place = f"step {state.global_step} of {state.max_steps}"
        self._write(f"{place}: {log_line(logs)}, {now - self._since:.1f} s")
        self._since = now
        rows = sum("reward" in row for row in state.log_history)
        judged = _PART * state.global_step >= state.max_steps or rows >= _ENOUGH
        for finding in findings(state.log_history) if judged and rows >= _FEWEST else ():
            if finding.rule.name not in self._said:
                self._write(f"warning: {finding}")
                self._said.add(finding.rule.name)


def log_line(row: LogRow) -> str:
    """Return what a row of the log says of rewards, max@k, KL, signal and length."""
    shown = ("reward", *_shown_metrics(row))
    parts = [f"{n} unknown" if (v := known(row, n)) is None else f"{n} {v:.3f}" for n in shown]
    if (kl := known(row, "kl")) is not None:  # with beta alone: otherwise no reference model
        parts.append(f"KL {kl:.4f}")
    if (silent := known(row, SILENT)) is not None and silent > MOST_WITHOUT_SIGNAL:
        parts.append(f"{silent:.0%} of the groups without signal")
    if (cut := known(row, "completions/clipped_ratio")) is not None:
        parts.append(f"{cut:.1%} cut off by length")
    return ", ".join([*parts, *lacking([row])])


def lacking(rows: Sequence[LogRow]) -> list[str]:
    """Return what share of the completions of some rows had no reward, or a reward that failed."""
    shares = {what: values(rows, key) for key, what in _LACKING.items()}
    return [f"{np.mean(s):.1%} {what}" for what, s in shares.items() if s and np.mean(s) > 0]


def _shown_metrics(row: LogRow) -> list[str]:
    """Return max@1, max@k of the trained k, and max@n, as far as they are logged."""
    wanted = {1, int(known(row, "objective/k") or 1), group_size([row])}
    return [name for k in sorted(wanted) if (name := f"max@{k}") in row]


def first_and_last(rows: Sequence[LogRow]) -> dict[str, tuple[float, float]]:
    """Return the means of max@1, max@k and max@n over the first and the last tenth of a log.

    The prompts of the two differ. The tenths have one row at least; a log with fewer than two rows
    has nothing to compare, and the result is empty. Values that are not known are left out.
    """
    logged = [row for row in rows if "reward" in row]
    if len(logged) < 2:
        return {}
    part = max(1, len(logged) // _PART)
    found = {}
    for name in _shown_metrics(logged[-1]):
        first, last = values(logged[:part], name), values(logged[-part:], name)
        if first and last:
            found[name] = (float(np.mean(first)), float(np.mean(last)))
    return found
