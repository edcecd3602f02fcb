"""What the log of a training shows to be wrong: rules on the last third of it, and the first."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from maxatk.folders import known, known_values
from maxatk.statistics.intervals import mean_and_error
from maxatk.training.keys import (
    CLAMPED,
    DISTINCT,
    EFFECTIVE,
    FAILED,
    MEAN_DELTA,
    REWARD,
    SHARED,
    SILENT,
    UNSCORED,
    max_at,
)

LogRow: TypeAlias = Mapping[str, Any]
Evidence: TypeAlias = Callable[[Sequence[LogRow]], str | None]

MOST_WITHOUT_SIGNAL = 0.5  # share of groups; above it most of the sampling teaches nothing

_MAX_AT_K = re.compile(r"max@(\d+)")
_REWARD_BY_NAME = re.compile(r"rewards/(.+)/mean")
_HELD_OUT = "eval_"
# The mean reward is max@1, which `best_of` does not log for a k above 1. Sets have their names.
_HELD_OUT_MAX_AT_1 = re.compile(r"(eval_(?:.+_)?)(max@1|reward)")

# Standard errors of a fall that prompts and samples do not make by chance.
_SURE = 2.5
_CERTAIN = 4.0


@dataclasses.dataclass(frozen=True)
class Symptom:
    """One thing that goes wrong, with the keys and the `evidence` of a log, None without any."""

    name: str
    reads: tuple[str, ...]
    evidence: Evidence
    remedy: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """A symptom that a log shows, with its evidence."""

    symptom: Symptom
    evidence: str

    def __str__(self) -> str:
        return f"{self.symptom.name}: {self.evidence}; {self.symptom.remedy}"


def findings(log: Sequence[LogRow]) -> list[Finding]:
    """Return the symptoms that the rows of a log show, in the order of `SYMPTOMS`."""
    if not training_rows(log):
        return []
    rows = [row for row in log if _is_about_training(row) or _is_held_out(row)]
    shown = []
    for symptom in SYMPTOMS:
        evidence = symptom.evidence(rows)
        if evidence is not None:
            shown.append(Finding(symptom, evidence))
    return shown


def training_rows(log: Sequence[LogRow]) -> list[LogRow]:
    """Return the rows about training; the others are summaries and evaluations."""
    return [row for row in log if _is_about_training(row)]


def _is_about_training(row: LogRow) -> bool:
    return not row.keys().isdisjoint(("loss", REWARD, max_at(1)))


def _is_held_out(row: LogRow) -> bool:
    """Return whether a row, which may be about training too, has values of an evaluation set."""
    return any(key.startswith(_HELD_OUT) for key in row)


def group_size(rows: Sequence[LogRow]) -> int:
    """Return the samples of a group: the largest k of max@k that is logged, 1 without any."""
    keys = {key for row in rows for key in row}
    matches = [_MAX_AT_K.fullmatch(key) for key in keys]
    return max((int(match[1]) for match in matches if match), default=1)


def thirds(rows: Sequence[LogRow], key: str) -> tuple[list[float], list[float]]:
    """Return the first and the last third of the rows that have a value of the key.

    Rows without one are left out first: steps that use samples again log no rewards.
    """
    numbers = known_values(rows, key)
    third = max(1, len(numbers) // 3)
    return numbers[:third], numbers[-third:]


def _now(rows: Sequence[LogRow], key: str) -> float | None:
    """Return the mean of the last third, None without a value."""
    _, last = thirds(rows, key)
    return float(np.mean(last)) if last else None


def _bounded(name: str, bounds: Mapping[str, tuple[float, float, str]], remedy: str) -> Symptom:
    """Return a symptom about keys that leave their bounds: key -> (least, most, sentence)."""

    def evidence(rows: Sequence[LogRow]) -> str | None:
        sentences = []
        for key, (least, most, sentence) in bounds.items():
            now = _now(rows, key)
            if now is not None and not least <= now <= most:
                sentences.append(sentence.format(now))
        return ", ".join(sentences) or None

    return Symptom(name, tuple(bounds), evidence, remedy)


def _moved(rows: Sequence[LogRow], key: str) -> tuple[float, str]:
    """Return by how many standard errors a key has moved between the thirds, and a sentence.

    Thirds of fewer than three values have no error to measure with: 0 and no sentence.
    """
    first, last = thirds(rows, key)
    if min(len(first), len(last)) < 3:
        return 0.0, ""
    before, error_before, _ = mean_and_error(np.array(first)[:, None])
    now, error_now, _ = mean_and_error(np.array(last)[:, None])
    error = max(float(np.hypot(error_before, error_now)[0]), 1e-9)
    return float(now[0] - before[0]) / error, f"{key} {before[0]:.3f} to {now[0]:.3f}"


def _constant(rows: Sequence[LogRow]) -> str | None:
    rewards = known_values(rows, REWARD)
    silent = known_values(rows, SILENT)
    if len(rewards) < 2 or not silent:
        return None
    varies = max(rewards) - min(rewards) > 1e-9 * abs(max(rewards))
    if varies or min(silent) < 1:
        return None
    return f"every reward was {rewards[0]:.3g} in all {len(rewards)} rows of the log"


def _without_signal(rows: Sequence[LogRow]) -> str | None:
    silent = _now(rows, SILENT)
    if silent is None or silent <= MOST_WITHOUT_SIGNAL:
        return None
    if _constant(rows):  # which is the better explanation
        return None
    shown = []
    for key in (max_at(1), max_at(group_size(rows))):
        now = _now(rows, key)
        if now is not None:
            shown.append(f"{key} {now:.3f}")
    levels = f" ({', '.join(shown)})" if shown else ""
    return f"{silent:.0%} of the groups had no signal{levels}"


def _one_answer(rows: Sequence[LogRow]) -> str | None:
    distinct = _now(rows, DISTINCT)
    size = group_size(rows)
    if distinct is None or size == 1 or distinct > max(0.2, 1.5 / size):
        return None
    at_first, _ = thirds(rows, DISTINCT)
    return f"{distinct:.0%} of the samples of a group differ, {np.mean(at_first):.0%} at first"


def _moves(wrong: Callable[[float, float], bool]) -> Evidence:
    """Return the evidence of moves of max@1 and max@n, in standard errors, that are `wrong`."""

    def evidence(rows: Sequence[LogRow]) -> str | None:
        size = group_size(rows)
        move_of_one, sentence_of_one = _moved(rows, max_at(1))
        move_of_best, sentence_of_best = _moved(rows, max_at(size))
        if size > 1 and wrong(move_of_one, move_of_best):
            return f"{sentence_of_one}, {sentence_of_best}"
        return None

    return evidence


def _memorized(rows: Sequence[LogRow]) -> str | None:
    move, sentence = _moved(rows, max_at(1))
    if move < _CERTAIN:
        return None
    sentences = [sentence]
    for key in _held_out_max_at_1(rows):
        held_out = known_values(rows, key)
        half = len(held_out) // 2
        if half < 2:
            continue
        before = float(np.mean(held_out[:half]))
        now = float(np.mean(held_out[-half:]))
        if now > before:  # the training helps on problems that it has not seen
            return None
        sentences.append(f"held out {before:.3f} to {now:.3f}")
    return ", ".join(sentences) if len(sentences) > 1 else None


def _held_out_max_at_1(rows: Sequence[LogRow]) -> list[str]:
    """Return the key of max@1 of every held-out set: that of the mean reward if it has no other."""
    key_of_set: dict[str, str] = {}
    for key in sorted({key for row in rows for key in row}):
        match = _HELD_OUT_MAX_AT_1.fullmatch(key)
        if match is not None:
            key_of_set.setdefault(match[1], key)  # "max@1" comes before "reward"
    return list(key_of_set.values())


def _part_ways(rows: Sequence[LogRow]) -> str | None:
    """Say which rewards have gone up and which down, where some have done either."""
    logged = {key for row in rows for key in row}
    up: list[str] = []
    down: list[str] = []
    for key in sorted(logged):
        if not _REWARD_BY_NAME.fullmatch(key):
            continue
        standard_errors, sentence = _moved(rows, key)
        if standard_errors > _CERTAIN:
            up.append(sentence)
        elif standard_errors < -_CERTAIN:
            down.append(sentence)
    return ", ".join([*up, *down]) if up and down else None


def _not_finite(rows: Sequence[LogRow]) -> str | None:
    logged = training_rows(rows)
    last = logged[-max(1, len(logged) // 3) :]
    broken = []
    for key in ("loss", "grad_norm"):
        if any(key in row and known(row, key) is None for row in last):
            broken.append(key)
    return f"{' and '.join(broken)} not a finite number" if broken else None


_SMALLER_STEPS = "a smaller learning_rate, fewer optimizer steps per rollout batch, a small beta"
_BACK = f"{_SMALLER_STEPS}; go back to an earlier checkpoint"

SYMPTOMS = (
    Symptom(
        "reward never varies",
        (REWARD, SILENT),
        _constant,
        "score a right and a wrong answer by hand; maxatk problems check",
    ),
    Symptom(
        "no signal",
        (SILENT, max_at(1), "max@n"),
        _without_signal,
        "problems that are solved sometimes (maxatk problems select), more samples a prompt, a "
        "smaller k, a reward with partial credit",
    ),
    Symptom("one answer for all", (DISTINCT,), _one_answer, f"a temperature of 1, {_BACK}"),
    _bounded(
        "one answer for many prompts",
        {SHARED: (0, 0.5, "{:.0%} of the rewarded samples have a text rewarded elsewhere too")},
        "read such samples (maxatk view): a constant may pass; more tests, or tests that vary more",
    ),
    Symptom(
        "rewards part ways",
        ("rewards/{name}/mean",),
        _part_ways,
        "read samples of the one that rises (maxatk view): it may pay for what the other does not, "
        "such as passing the visible tests alone",
    ),
    Symptom(
        "memorizing",
        (max_at(1), f"{_HELD_OUT}{max_at(1)}", f"{_HELD_OUT}{REWARD}"),
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
            UNSCORED: (0, 0.01, "{:.1%} of the samples have no reward"),
            FAILED: (0, 0.01, "the reward failed for {:.1%} of the samples"),
            "verifier/infra_error": (0, 0.01, "the verifier failed at {:.1%} of the tests"),
        },
        "maxatk doctor, fewer verifier.workers; a reward of your own must return a number",
    ),
    _bounded(
        "tools fail",
        {"tools/failure_frequency": (0, 0.5, "{:.0%} of the calls of tools failed")},
        "read what they answered (maxatk view): a tool may raise an error at every call, which TRL "
        "tells the model and goes on, or the model does not know the arguments",
    ),
    _bounded(
        "time limit",
        {"verifier/time_limit": (0, 0.2, "{:.0%} of the tests ran out of time")},
        "a larger verifier.time_limit, fewer verifier.workers; else the programs do not end",
    ),
    _bounded(
        "ratios off",
        {
            EFFECTIVE: (0.1, math.inf, "{:.1%} effective samples"),
            CLAMPED: (0, 0.2, "{:.0%} of the ratios were clamped"),
            MEAN_DELTA: (0, 0.5, "the mean |ratio - 1| is {:.2f}"),
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
    Symptom(
        "best of many falls",
        (max_at(1), "max@n"),
        _moves(lambda one, best: one > 1 and best < -_SURE),
        f"a larger k, {_BACK}",
    ),
    Symptom(
        "training destroys",
        (max_at(1), "max@n"),
        _moves(lambda one, best: max(one, best) < -_CERTAIN),
        f"max_grad_norm, {_BACK}",
    ),
    _bounded(
        "far from the start",
        {"kl": (-math.inf, 1, "KL of {:.2f} nats a token")},
        "a smaller learning_rate, a larger beta",
    ),
    Symptom(
        "not finite",
        ("loss", "grad_norm"),
        _not_finite,
        "a smaller learning_rate, max_grad_norm, bf16 instead of fp16",
    ),
)
"""What can be wrong, in the order in which it is told."""
