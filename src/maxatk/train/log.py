"""The log of a training: what it holds beside TRL's metrics, in lines, and the model card."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback

from maxatk.folders import known
from maxatk.objectives import effective_sample_size, method_of
from maxatk.records import Outcome
from maxatk.statistics import symptoms

Metrics: TypeAlias = Mapping[str, list[float]]

OUTCOMES = (Outcome.TIME_LIMIT, Outcome.INFRA_ERROR)
_ON_CARD = ("form", "max_weight", "advantage_scale", "num_generations", "num_iterations")
_TITLE = "## Trained for best-of-N with maxatk"
_LACKING = {symptoms.WITHOUT: "without a reward", symptoms.FAILED: "for which the reward failed"}
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


def log_ratios(
    metrics: Metrics, log_ratios: np.ndarray, *, clamp: float | None, k: int | None = None
) -> None:
    """Log how far the policy has moved from the one that sampled: log ratios in nats, (P, n)."""
    deviation = np.abs(np.expm1(np.clip(log_ratios, -50, 50)))
    metrics["ratio/mean_abs_delta"].append(float(deviation.mean()))
    metrics["ratio/max_abs_delta"].append(float(deviation.max()))
    bound = np.inf if clamp is None else clamp
    metrics["ratio/clamped"].append(float((deviation > bound).mean()))
    if k is not None:
        share = effective_sample_size(log_ratios, min(k, log_ratios.shape[1]), clamp=clamp)
        metrics["ratio/effective_samples"].append(float(share.mean()))


def log_outcomes(metrics: Metrics, reward: Any, accelerator: Any) -> None:
    """Log for what share of completions a reward failed, and of tests the time or the verifier."""
    if (failed := getattr(reward, "failed", None)) is not None:
        share = torch.tensor(failed, device=accelerator.device)
        metrics[symptoms.FAILED].append(float(accelerator.reduce(share, reduction="mean")))
    if (verdicts := getattr(reward, "verdicts", None)) is None:
        return
    found = [test.outcome for verdict in verdicts for test in verdict.tests]
    total, *counts = np.sum(gather_object([[len(found), *map(found.count, OUTCOMES)]]), axis=0)
    for outcome, count in zip(OUTCOMES, counts, strict=True):
        metrics[f"verifier/{outcome.value}"].append(float(count / max(total, 1)))


@dataclasses.dataclass(eq=False)
class Reporter(TrainerCallback):
    """Tell a function the steps, done and in all, and another one the log, a line for each row."""

    progress: Callable[[int, int], object] | None
    write: Callable[[str], None] | None = None
    since: float = dataclasses.field(default_factory=time.monotonic)
    said: set[str] = dataclasses.field(default_factory=set)

    def on_step_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Report an optimizer step."""
        if self.progress is not None:
            self.progress(state.global_step, state.max_steps)

    def on_log(
        self, _args: Any, state: Any, *_: Any, logs: symptoms.LogRow | None = None, **__: Any
    ) -> None:
        """Write the line of a row; rows without a reward are summaries of transformers."""
        if not (self.write and state.is_world_process_zero and logs and "reward" in logs):
            return
        now = time.monotonic()
        place = f"step {state.global_step} of {state.max_steps}"
        self.write(f"{place}: {log_line(logs)}, {now - self.since:.1f} s")
        self.since = now
        rows = sum("reward" in row for row in state.log_history)
        judged = _PART * state.global_step >= state.max_steps or rows >= _ENOUGH
        for finding in symptoms.findings(state.log_history) if judged and rows >= _FEWEST else ():
            if finding.rule.name not in self.said:
                self.write(f"warning: {finding}")
                self.said.add(finding.rule.name)


def log_line(row: symptoms.LogRow) -> str:
    """Return what a row of the log says of rewards, max@k, KL, signal and length."""
    shown = ("reward", *_shown_metrics(row))
    parts = [f"{n} unknown" if (v := known(row, n)) is None else f"{n} {v:.3f}" for n in shown]
    if (kl := known(row, "kl")) is not None:  # with beta alone: otherwise no reference model
        parts.append(f"KL {kl:.4f}")
    if (silent := known(row, symptoms.SILENT) or 0) > symptoms.MOST_WITHOUT_SIGNAL:
        parts.append(f"{silent:.0%} of the groups without signal")
    if (cut := known(row, "completions/clipped_ratio")) is not None:
        parts.append(f"{cut:.1%} cut off by length")
    return ", ".join([*parts, *lacking([row])])


def lacking(rows: Sequence[symptoms.LogRow]) -> list[str]:
    """Return what share of the completions of some rows had no reward, or a reward that failed."""
    shares = {what: symptoms.values(rows, key) for key, what in _LACKING.items()}
    return [f"{np.mean(s):.1%} {what}" for what, s in shares.items() if s and np.mean(s) > 0]


def _shown_metrics(row: symptoms.LogRow) -> list[str]:
    """Return max@1, max@k of the trained k, and max@n, as far as they are logged."""
    wanted = {1, int(known(row, "objective/k") or 1), symptoms.group_size([row])}
    return [name for k in sorted(wanted) if (name := f"max@{k}") in row]


def first_and_last(rows: Sequence[symptoms.LogRow]) -> dict[str, tuple[float, float]]:
    """Return the means of max@1, max@k and max@n over the first and the last tenth of a log."""
    logged = [row for row in rows if "reward" in row]
    if len(logged) < 2:
        return {}
    part = max(1, len(logged) // _PART)
    found = {}
    for name in _shown_metrics(logged[-1]):
        first, last = symptoms.values(logged[:part], name), symptoms.values(logged[-part:], name)
        if first and last:
            found[name] = (float(np.mean(first)), float(np.mean(last)))
    return found


def describe_training(trainer: Any) -> None:
    """Add the objective, and what the log shows to be wrong, to the card that TRL has written."""
    args, base = trainer.args, trainer.model.config.name_or_path
    card = Path(args.output_dir) / "README.md"
    if not card.is_file():
        return
    text = card.read_text(encoding="utf-8").partition(_TITLE)[0].rstrip()
    text = text.replace("[None](https://huggingface.co/None)", f"`{base}`")  # a local folder
    text = text.replace('model="None"', f'model="{args.output_dir}"')
    method, k = method_of(args.method), str(args.k)
    if args.k_schedule != "constant":
        k += f" to {args.objective.last_k} ({args.k_schedule})"
    aim = method.credit_row.statistic or f"reward of the best of all {args.num_generations} samples"
    aim += f" for k = {k}" if method.credit_row.uses_k else ""
    lines = [
        *(text, "", _TITLE, "", f"The method raises the expected {aim}.", ""),
        *("| setting | value |", "|---|---|", f"| base model | `{base}` |"),
        f"| method | `{args.method}` ({method.source}) |",
        *(f"| `{name}` | {getattr(args, name)} |" for name in _ON_CARD),
        "",
        *(f"- {finding}" for finding in symptoms.findings(trainer.state.log_history)),
        "",
    ]
    card.write_text("\n".join(lines), encoding="utf-8")
