"""What the log of a training shows to be wrong: rules on the last third of it, and the first."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from maxatk.folders import known
from maxatk.statistics.intervals import mean_and_error

LogRow: TypeAlias = Mapping[str, Any]
Evidence: TypeAlias = Callable[[Sequence[LogRow]], str | None]

SILENT = "frac_groups_without_signal"
DISTINCT, SHARED = "completions/distinct", "completions/rewarded_elsewhere"
WITHOUT, FAILED = "frac_without_reward", "frac_reward_failed"
MOST_WITHOUT_SIGNAL = 0.5  # share of groups; above it most of the sampling teaches nothing
MAX_AT_K = re.compile(r"max@(\d+)")
_HELD_OUT = "eval_"
_REWARD = re.compile(r"rewards/(.+)/mean")

_SURE, _CERTAIN = 2.5, 4.0  # standard errors of a fall that prompts and samples do not make


@dataclasses.dataclass(frozen=True)
class Rule:
    """One thing that goes wrong, with the keys and the `evidence` of a log, None without any."""

    name: str
    reads: tuple[str, ...]
    evidence: Evidence
    remedy: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """A rule that fires, with its evidence."""

    rule: Rule
    evidence: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.evidence}; {self.rule.remedy}"


def findings(log: Sequence[LogRow]) -> list[Finding]:
    """Return what the rows of a log show to be wrong, in the order of `RULES`."""
    rows = training_rows(log)
    held_out = [row for row in log if any(key.startswith(_HELD_OUT) for key in row)]
    found = ((rule, rule.evidence([*rows, *held_out])) for rule in RULES if rows)
    return [Finding(rule, evidence) for rule, evidence in found if evidence is not None]


def training_rows(log: Sequence[LogRow]) -> list[LogRow]:
    """Return the rows about training; the others are summaries and evaluations."""
    return [row for row in log if not row.keys().isdisjoint(("loss", "reward", "max@1"))]


def group_size(rows: Sequence[LogRow]) -> int:
    """Return the samples of a group: the largest k of max@k that is logged, 1 without any."""
    keys = {key for row in rows for key in row}
    return max((int(m[1]) for key in keys if (m := MAX_AT_K.fullmatch(key))), default=1)


def values(rows: Sequence[LogRow], key: str) -> list[float]:
    """Return the values of a key that are known."""
    return [value for row in rows if (value := known(row, key)) is not None]


def _thirds(rows: Sequence[LogRow], key: str) -> tuple[list[float], list[float]]:
    found = values(rows, key)  # steps that use samples again log no rewards
    third = max(1, len(found) // 3)
    return found[:third], found[-third:]


def _now(rows: Sequence[LogRow], key: str) -> float | None:
    _, found = _thirds(rows, key)
    return float(np.mean(found)) if found else None


def _bounded(name: str, bounds: Mapping[str, tuple[float, float, str]], remedy: str) -> Rule:
    """Return a rule about keys that leave their bounds: key -> (least, most, sentence)."""

    def evidence(rows: Sequence[LogRow]) -> str | None:
        said = []
        for key, (least, most, text) in bounds.items():
            now = _now(rows, key)
            if now is not None and not least <= now <= most:
                said.append(text.format(now))
        return ", ".join(said) or None

    return Rule(name, tuple(bounds), evidence, remedy)


def _moved(rows: Sequence[LogRow], key: str) -> tuple[float, str]:
    """Return how many standard errors a key has moved between thirds of three or more, and how."""
    thirds = [np.array(third)[:, None] for third in _thirds(rows, key)]
    if min(map(len, thirds)) < 3:
        return 0.0, ""
    means, errors, _ = zip(*map(mean_and_error, thirds), strict=True)
    (before,), (now,) = means
    error = max(float(np.hypot(*errors)[0]), 1e-9)
    return float(now - before) / error, f"{key} {before:.3f} to {now:.3f}"


def _constant(rows: Sequence[LogRow]) -> str | None:
    rewards, silent = values(rows, "reward"), values(rows, SILENT)
    varies = len(rewards) < 2 or max(rewards) - min(rewards) > 1e-9 * abs(max(rewards))
    if varies or not silent or min(silent) < 1:
        return None
    return f"every reward was {rewards[0]:.3g} in all {len(rewards)} rows of the log"


def _without_signal(rows: Sequence[LogRow]) -> str | None:
    silent = _now(rows, SILENT)
    if silent is None or silent <= MOST_WITHOUT_SIGNAL or _constant(rows):
        return None
    keys = ("max@1", f"max@{group_size(rows)}")
    shown = [f"{key} {now:.3f}" for key in keys if (now := _now(rows, key)) is not None]
    return f"{silent:.0%} of the groups had no signal" + (f" ({', '.join(shown)})" if shown else "")


def _one_answer(rows: Sequence[LogRow]) -> str | None:
    distinct, size = _now(rows, DISTINCT), group_size(rows)
    if distinct is None or size == 1 or distinct > max(0.2, 1.5 / size):
        return None
    first = np.mean(_thirds(rows, DISTINCT)[0])
    return f"{distinct:.0%} of the samples of a group differ, {first:.0%} at first"


def _moves(wrong: Callable[[float, float], bool]) -> Evidence:
    """Return the evidence that max@1 and max@n have moved so, each in standard errors."""

    def evidence(rows: Sequence[LogRow]) -> str | None:
        size = group_size(rows)
        (one, first), (best, last) = _moved(rows, "max@1"), _moved(rows, f"max@{size}")
        return f"{first}, {last}" if size > 1 and wrong(one, best) else None

    return evidence


def _memorized(rows: Sequence[LogRow]) -> str | None:
    held_out = values(rows, f"{_HELD_OUT}max@1")
    half = len(held_out) // 2
    errors, moved = _moved(rows, "max@1")
    if half < 2 or errors < _CERTAIN:
        return None
    before, now = float(np.mean(held_out[:half])), float(np.mean(held_out[-half:]))
    return None if now > before else f"{moved}, held out {before:.3f} to {now:.3f}"


def _part_ways(rows: Sequence[LogRow]) -> str | None:
    keys = sorted({key for row in rows for key in row if _REWARD.fullmatch(key)})
    moves = {key: _moved(rows, key) for key in keys}
    up = [said for errors, said in moves.values() if errors > _CERTAIN]
    down = [said for errors, said in moves.values() if errors < -_CERTAIN]
    return ", ".join([*up, *down]) if up and down else None


def _not_finite(rows: Sequence[LogRow]) -> str | None:
    rows = training_rows(rows)
    last = rows[-max(1, len(rows) // 3) :]
    keys = ("loss", "grad_norm")
    found = [k for k in keys if any(k in row and known(row, k) is None for row in last)]
    return f"{' and '.join(found)} not a finite number" if found else None


_SMALLER_STEPS = "a smaller learning_rate, fewer optimizer steps per rollout batch, a small beta"
_BACK = f"{_SMALLER_STEPS}; go back to an earlier checkpoint"

RULES = (
    Rule(
        "reward never varies",
        ("reward", SILENT),
        _constant,
        "score a right and a wrong answer by hand; maxatk problems check",
    ),
    Rule(
        "no signal",
        (SILENT, "max@1", "max@n"),
        _without_signal,
        "problems that are solved sometimes (maxatk problems select), more samples a prompt, a "
        "smaller k, a reward with partial credit",
    ),
    Rule("one answer for all", (DISTINCT,), _one_answer, f"a temperature of 1, {_BACK}"),
    _bounded(
        "one answer for many prompts",
        {SHARED: (0, 0.5, "{:.0%} of the rewarded samples have a text rewarded elsewhere too")},
        "read such samples (maxatk view): a constant may pass; more tests, or tests that vary more",
    ),
    Rule(
        "rewards part ways",
        ("rewards/{name}/mean",),
        _part_ways,
        "read samples of the one that rises (maxatk view): it may pay for what the other does not, "
        "such as passing the visible tests alone",
    ),
    Rule(
        "memorizing",
        ("max@1", "eval_max@1"),
        _memorized,
        "more problems, fewer epochs; go back to the checkpoint that was best on held-out problems",
    ),
    _bounded(
        "cut off",
        {"completions/clipped_ratio": (0, 0.2, "{:.0%} of the completions were cut off")},
        "a larger max_completion_length; look whether the model ends its answers at all",
    ),
    _bounded(
        "verifier fails",
        {
            WITHOUT: (0, 0.01, "{:.1%} of the samples have no reward"),
            FAILED: (0, 0.01, "the reward failed for {:.1%} of the samples"),
            "verifier/infra_error": (0, 0.01, "the verifier failed at {:.1%} of the tests"),
        },
        "maxatk doctor, fewer verifier.workers; a reward of your own must return a number",
    ),
    _bounded(
        "time limit",
        {"verifier/time_limit": (0, 0.2, "{:.0%} of the tests ran out of time")},
        "a larger verifier.time_limit, fewer verifier.workers; else the programs do not end",
    ),
    _bounded(
        "ratios off",
        {
            "ratio/effective_samples": (0.1, math.inf, "{:.1%} effective samples"),
            "ratio/clamped": (0, 0.2, "{:.0%} of the ratios were clamped"),
            "ratio/mean_abs_delta": (0, 0.5, "the mean |ratio - 1| is {:.2f}"),
            "sampling/sampling_logp_difference/mean": (0, 0.1, "sampler {:.2f} nats off"),
        },
        "fewer num_iterations, a smaller learning_rate; a sampler of the same dtype",
    ),
    _bounded(
        "clipping",
        dict.fromkeys(
            ("clip_ratio/region_mean", "cispo_clip_ratio"),
            (0, 0.1, "{:.0%} of the tokens were clipped"),
        ),
        "fewer optimizer steps per rollout batch, a smaller learning_rate",
    ),
    Rule(
        "best of many falls",
        ("max@1", "max@n"),
        _moves(lambda one, best: one > 1 and best < -_SURE),
        f"a larger k, {_BACK}",
    ),
    Rule(
        "training destroys",
        ("max@1", "max@n"),
        _moves(lambda one, best: max(one, best) < -_CERTAIN),
        f"max_grad_norm, {_BACK}",
    ),
    _bounded(
        "far from the start",
        {"kl": (-math.inf, 1, "KL of {:.2f} nats a token")},
        "a smaller learning_rate, a larger beta",
    ),
    Rule(
        "not finite",
        ("loss", "grad_norm"),
        _not_finite,
        "a smaller learning_rate, max_grad_norm, bf16 instead of fp16",
    ),
)
"""What can be wrong, in the order in which it is told."""
