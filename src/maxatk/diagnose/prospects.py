"""What a training can gain from P problems, by the rewards of N stored samples of each."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxatk.check import positive, require, whole
from maxatk.errors import DataError, InvalidValueError, counted
from maxatk.evaluation.load import passing_reward, scores_of_folder
from maxatk.evaluation.results import CEILING
from maxatk.objectives import METHODS, max_at_k, weighting
from maxatk.objectives.metrics import passes
from maxatk.python_numbers import with_python_numbers
from maxatk.statistics.intervals import FloatArray, check_ks, default_ks
from maxatk.statistics.power import pairs_needed, problems_needed

Rows: TypeAlias = list[dict[str, Any]]

METHODS_COMPARED = ("grpo", "rloo", "max_rl", "bon_mean", "bon_loo1")
BANDS = {
    "never": 0.0,
    "up to 1/8": 0.125,
    "up to 1/2": 0.5,
    "up to 7/8": 0.875,
    "above 7/8": 1 - 1e-9,
    "always": 1.0,
}
"""How often a problem is solved: the largest share of its samples in each band."""

_GROUP_SIZES = (4, 8, 16, 32)  # where none is asked for
_FOR_GROUPS = 16  # samples a problem, which say something of groups of 4, 8 and 16
_ENOUGH_SIGNAL = 0.5  # share of the groups
_LITTLE_SIGNAL = 0.1
_WIDEST_K = 8  # with n = 16 the best constant k of the study, for every N from 8 to 128
# From each k on, the standard deviation over the seeds of the study of the difference of max@k, in
# units of max@k, between two trainings of the built-in model: the median over the planned pairs.
_SEED_SPREADS = {1: 0.011, 2: 0.015, 4: 0.018, 8: 0.023, 16: 0.027}
_KEPT = 0.5  # share of the signal of k = 1 that a larger k must keep


def prospects(
    folder: str | Path,
    *,
    best_of: int | None = None,
    ns: Sequence[int] = (),
    ks: Sequence[int] = (),
    differences: Sequence[float] = (0.02, 0.05),
) -> dict[str, Rows]:
    """Return tables of what a training can gain, from the scores of a run.

    - "problems": how many there are, and the `samples` of the one with the fewest.
    - "signal": n, k and the `share` of the groups of n samples with a signal for max@k, over the
      `problems` with n rewards.
    - "gain": k and max@k over the `problems` with k rewards; what is `missing` of it to the best
      stored sample of each, in how many it can `rise`, and what is `beyond` all samples, None
      without a ceiling.
    - "weights": the `share` of a method's gradient by how often problems are `solved`.
    - "needed": how many `problems` show a `difference` of max@k, where a reward is 1 for a sample
      that passes and 0 for others, None if no model can be so far above; and how many `seeds`,
      where trainings differ as those of the built-in model did.
    - "suggestion": an n, a k and a method that suit the problems, with the reason.

    `best_of` answers are what the best is taken of in use, half the samples or 2 by default. Sizes
    of a group `ns` above the samples are left out; they are 4, 8, 16 and 32 by default, or all
    samples of a problem that has fewer than 4. `ks` are 1, 2, 4, ... up to half of the samples by
    default. As in results, a problem whose samples lack rewards does not limit the others.

    Raises MissingFileError, DataError for a corrupt line and for samples of which no two make a
    group, InvalidValueError for numbers.
    """
    ns, ks, best_of, differences = with_python_numbers((ns, ks, best_of, differences))
    for n in ns:
        whole("n", n, 2)
    seeds = {}
    for difference in differences:
        positive("difference", difference)
        for k, spread in _SEED_SPREADS.items():
            seeds[difference, k] = pairs_needed(difference, spread)
    rewards, samples = _rewards_of(folder)
    sizes = _group_sizes(ns, samples)
    # Of 2 or 3 samples half is 1, which nobody has said to be the answers in use.
    wanted = max(samples // 2, 2) if best_of is None else best_of
    whole("best_of", wanted, 1)
    ks = check_ks(ks, samples) or default_ks(max(samples // 2, 1))
    chances = _chances(rewards, passing_reward(folder))
    suggestion = suggested(rewards, sizes, wanted)
    if samples < _GROUP_SIZES[0]:
        suggestion["reason"] += (
            f"; {counted(samples, 'sample')} a problem say nothing of larger groups: draw "
            f"{_FOR_GROUPS} or more"
        )
    widest = max(suggestion["k"], suggestion["n"] // 2)
    return {
        "problems": [{"problems": len(rewards), "samples": samples}],
        "signal": list(_signal_rows(rewards, sizes, ks)),
        "gain": list(_gain(rewards, sorted({*ks, *default_ks(samples)}))),
        "weights": list(_weights(chances, suggestion["n"], widest)),
        "needed": list(_needed(differences, ks, samples, chances, seeds)),
        "suggestion": [suggestion],
    }


def _group_sizes(ns: Sequence[int], samples: int) -> list[int]:
    """Return the sizes of a group that so many samples allow, ascending, of `ns` if any are given.

    Raises InvalidValueError where all that are given are too large.
    """
    sizes = [n for n in sorted(set(ns or _GROUP_SIZES)) if n <= samples]
    if not ns and not sizes:
        return [samples]
    require(bool(sizes), "n", f"at most the {counted(samples, 'sample')} of a problem", tuple(ns))
    return sizes


def _rewards_of(folder: str | Path) -> tuple[FloatArray, int]:
    """Return the rewards (P, N) of the problems that have one, and the samples of a problem.

    These are the samples of the problem with the fewest, with a reward or without, but no more than
    the most rewards that a problem has: a larger group could be drawn of none.
    """
    tally = scores_of_folder(folder)
    rewards, stored = tally.rewards(tally.problem_ids)
    has_reward = ~np.isnan(rewards).all(axis=1)
    rewards = rewards[has_reward]
    most_scored = int(_scored(rewards).max(initial=0))
    samples = min([most_scored, *stored[has_reward].tolist()])
    if samples < 2:
        raise DataError(
            f"{folder}: a problem has {counted(samples, 'sample')} with a reward, and a group "
            "needs 2"
        )
    return rewards, samples


def _scored(rewards: FloatArray) -> npt.NDArray[np.intp]:
    """Return how many samples of each problem have a reward: (P, N) to (P,)."""
    return np.asarray((~np.isnan(rewards)).sum(axis=1))


def signal_chances(rewards: FloatArray, n: int, k: int) -> FloatArray:
    """Return the chance (P,) that n samples of each problem have a signal for max@k, exactly.

    rewards: (P, N), NaN where unscored, n or more of each not; the n are drawn of these. A
    group has a signal where an advantage of `bon_loo1` is not 0: where max(k - 1, 1) of its
    samples or more are below its best. For k = 1 this is so for every method that has a baseline.
    """
    fewest_silent = n - max(k - 1, 1) + 1  # so many that share the best leave no signal
    chances = []
    for row in rewards:
        _, samples = np.unique(row[~np.isnan(row)], return_counts=True)
        counts = samples.tolist()  # of every reward, from the lowest
        silent = 0  # groups of n without a signal, among all that can be drawn
        for level, count in enumerate(counts):
            lower = sum(counts[:level])
            for best in range(fewest_silent, min(n, count) + 1):
                silent += math.comb(count, best) * math.comb(lower, n - best)
        chances.append(1 - silent / math.comb(sum(counts), n))
    return np.array(chances)


def _signal_rows(
    rewards: FloatArray, ns: Sequence[int], ks: Sequence[int]
) -> Iterator[dict[str, Any]]:
    for n in ns:
        for k in ks:
            if k <= n:
                problems = int((_scored(rewards) >= n).sum())
                yield {"n": n, "k": k, "share": _signal(rewards, n, k), "problems": problems}


def _signal(rewards: FloatArray, n: int, k: int) -> float:
    can_be_drawn = rewards[_scored(rewards) >= n]
    return float(signal_chances(can_be_drawn, n, k).mean())


@dataclasses.dataclass(frozen=True, kw_only=True)
class _GroupOption:
    """A size n of groups, a k for it, and the share of the groups that have a signal then."""

    n: int
    k: int
    share: float


def suggested(rewards: FloatArray, ns: Sequence[int], best_of: int) -> dict[str, Any]:
    """Return the n of `ns`, the k and the method for the best of `best_of` answers, and why.

    k is `best_of` or half of n, or what keeps half of the signal of k = 1. n is the smallest whose
    half reaches N, or 8, and of whose groups half have a signal, else the one with the most.
    """
    wide_enough = [n for n in ns if n // 2 >= min(best_of, _WIDEST_K)]
    options = []
    for n in wide_enough or [ns[-1]]:
        k = _widest_k(rewards, n, best_of)
        options.append(_GroupOption(n=n, k=k, share=_signal(rewards, n, k)))
    with_enough_signal = [option for option in options if option.share >= _ENOUGH_SIGNAL]
    if with_enough_signal:
        chosen = with_enough_signal[0]
    else:
        chosen = max(options, key=lambda option: option.share)
    n, k, share = chosen.n, chosen.k, chosen.share
    method, evidence = _method_for(n, k, best_of)
    reason = (
        f"with n = {n} and k = {k} ({_limit_of(n, k, best_of)}) {share:.0%} of the groups have a "
        f"signal; {evidence}"
    )
    # A larger step moves every method the same way, so that one rate compares steps, not methods.
    reason += (
        "; compare methods only at the best of two or three learning rates of each, and GRPO at "
        "the best of several KL penalties (beta)"
    )
    if share < _LITTLE_SIGNAL:
        reason += "; choose other problems first (maxatk problems select)"
    return {"n": n, "k": k, "method": method, "reason": reason}


def _limit_of(n: int, k: int, best_of: int) -> str:
    """Say what keeps the suggested k from being larger."""
    if k < min(best_of, n // 2):
        return "the largest that keeps half of the signal of k = 1"
    return "as many as the answers in use" if k == best_of else "half a group"


def _method_for(n: int, k: int, best_of: int) -> tuple[str, str]:
    """Return the method for the suggested n and k, and the evidence for it."""
    if k > 1:
        return "bon_loo1", (
            "in the study bon_loo1 kept the best of many where steps were large; with small steps "
            "GRPO was level with it after few, and after many behind it at k = 8, by little or "
            "nothing where its KL penalty was tuned"
        )
    if n // 2 < 2 <= best_of:
        return "grpo", f"groups of {n} are too small for k = 2, which needs n = 4 or more"
    return "grpo", "for one answer max@k training gained less than GRPO in the study"


def _widest_k(rewards: FloatArray, n: int, best_of: int) -> int:
    """Return the largest k that keeps half of the signal of k = 1."""
    least = _KEPT * _signal(rewards, n, 1)
    for k in range(min(best_of, n // 2), 1, -1):
        if _signal(rewards, n, k) >= least:
            return k
    return 1


def _chances(rewards: FloatArray, passes_from: float) -> FloatArray:
    """Return how often each problem is solved: (P,)."""
    passed = passes(rewards, passes_from)
    shares: FloatArray = passed.sum(axis=1) / _scored(rewards)
    return shares


def _gain(rewards: FloatArray, ks: Sequence[int]) -> Iterator[dict[str, Any]]:
    # A reward above 1 shows that 1 is no ceiling.
    has_ceiling = np.nanmax(rewards) <= CEILING
    for k in ks:
        of_k = rewards[_scored(rewards) >= k]
        values = max_at_k(of_k, k)
        best = np.nanmax(of_k, axis=1)
        gap = best - values
        yield {
            "k": k,
            "max@k": float(values.mean()),
            "missing": float(gap.mean()),
            "rise": int((gap > 1e-9).sum()),
            "beyond": float((CEILING - best).mean()) if has_ceiling else None,
            "problems": len(of_k),
        }


def _weights(chances: FloatArray, n: int, k: int) -> Iterator[dict[str, Any]]:
    for method in METHODS_COMPARED:
        # `weighting` is by the gradient of p, and p (1 - p) makes it by that of the log odds.
        pull = weighting(method, n, k, chances) * chances * (1 - chances)
        for solved, in_band in in_bands(chances).items():
            yield {
                "solved": solved,
                "problems": int(in_band.sum()),
                **used(method, n, k),
                "share": float(pull[in_band].sum() / pull.sum()) if pull.sum() else None,
            }


def in_bands(chances: FloatArray) -> dict[str, npt.NDArray[np.bool_]]:
    """Return by name of a band which problems are in it, given how often they are solved: (P,)."""
    band_of = np.searchsorted(list(BANDS.values()), chances)
    return {name: band_of == band for band, name in enumerate(BANDS)}


def used(method: str, n: int, k: int) -> dict[str, Any]:
    """Return the method, n and k of a row, without the k of a method that has none."""
    return {"method": method, "n": n, "k": k if METHODS[method].credit_row.uses_k else None}


def _needed(
    differences: Sequence[float],
    ks: Sequence[int],
    samples: int,
    chances: FloatArray,
    seeds: Mapping[tuple[float, int], int],
) -> Iterator[dict[str, Any]]:
    for difference in differences:
        for k in ks:
            yield {
                "difference": difference,
                "k": k,
                "problems": _problems_needed(difference, k, samples, chances),
                "seeds": seeds[difference, _studied_k(k)],
            }


def _studied_k(k: int) -> int:
    """Return the largest k of which the spread over seeds is known, up to this one."""
    return max(studied for studied in _SEED_SPREADS if studied <= k)


def _problems_needed(difference: float, k: int, samples: int, chances: FloatArray) -> int | None:
    with contextlib.suppress(InvalidValueError):  # no model can be so far above this one
        return problems_needed(difference, k=k, samples=samples, chances=chances)
    return None
