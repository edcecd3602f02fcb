"""What other projects compute for best-of-k, written anew from their papers, beside ours.

PKPO's `sloo` (2505.15201) as a matrix product and one group without each sample, the bootstrap
with replacement that verl reports as best@k, and consensus@k by all subsets as NeMo-RL has it.
OrderGrad (2606.06096) is its own code, where `ordergrad` can be imported: no package index has it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

from collections import Counter

import numpy as np

from maxatk.objectives import (
    Method,
    OrderWeights,
    advantages,
    majority_at_k,
    max_at_k,
    pass_at_k,
)
from maxatk.objectives.answers import _majority_chances
from maxatk.objectives.subsets import max_weights, pair_weights
from timing import measure

ORDERGRAD_ERRORS = {(1024, 16): 8e-15, (64, 256): 1e-12}  # (P, n): its counts are logarithms
MAJORITY_TARGET = 50e-3  # seconds, 16 of 64 samples with 12 answers


def pkpo_credits(rewards: np.ndarray, k: int) -> np.ndarray:
    """Credits of one group (n,) by the n x n matrix of its subset counts."""
    order = np.argsort(rewards)
    n = len(rewards)
    weights = np.tril(np.repeat(pair_weights(n, k)[:, None], n, axis=1), -1)
    weights += np.diag(max_weights(n, k))
    result = np.empty(n)
    result[order] = rewards[order] @ weights
    return result


def pkpo_sloo(rewards: np.ndarray, k: int) -> np.ndarray:
    """Each credit minus the mean of the others' credits in the group without it, (P, n)."""
    advantages_of_rows = np.stack([pkpo_credits(row, k) for row in rewards])
    for row, advantages_of_row in zip(rewards, advantages_of_rows, strict=True):
        for i in range(len(row)):
            advantages_of_row[i] -= pkpo_credits(np.delete(row, i), k).mean()
    return advantages_of_rows


def bootstrap_best(rewards: np.ndarray, k: int, draws: int = 1000) -> float:
    """best@k of one group by draws with replacement."""
    drawn = np.random.default_rng(0).choice(rewards, size=(draws, k))
    return float(drawn.max(axis=1).mean())


def consensus(answers: np.ndarray, rewards: np.ndarray, k: int) -> float:
    """The reward of the first most common answer, over all k-subsets of one group."""
    worth = dict(zip(answers.tolist(), rewards.tolist(), strict=True))
    total = 0.0
    count = 0
    for subset in itertools.combinations(answers.tolist(), k):
        total += worth[Counter(subset).most_common(1)[0][0]]
        count += 1
    return total / count


def ordergrad() -> None:
    """Compare OrderGrad's advantages, which are n/k times ours with the baseline remove_one."""
    if importlib.util.find_spec("ordergrad") is None:
        print("OrderGrad: skipped, `ordergrad` (github.com/paavo5/ordergrad) cannot be imported")
        return
    from ordergrad import OrderStatTransform

    k = 8
    presets = {  # but for LMoment, whose weights are not those of the textbook definition
        "ReMax": OrderWeights.max(k),
        "ReMin": OrderWeights.min(k),
        "TopM:2": OrderWeights.top(2, of=k),
        "Median": OrderWeights.quantile(0.5, of=k),
        "TrimM:1": OrderWeights.trimmed(1, of=k),
        "WinsorizedM:1": OrderWeights.winsorised(1, of=k),
        "HarrellDavis:0.75": OrderWeights.harrell_davis(0.75, of=k),
        "GMD": OrderWeights.gini(k),
    }
    for (prompts, n), most in ORDERGRAD_ERRORS.items():
        rewards = np.random.default_rng(4).random((prompts, n))
        for preset, weights in presets.items():
            theirs_of = OrderStatTransform.precompute_lstat(n, k, preset)
            method = Method(credit=weights, baseline="remove_one")
            ours, theirs = measure(
                lambda r=rewards, m=method, x=n / k: x * advantages(r, m, k),
                lambda r=rewards, t=theirs_of: np.stack([t.lstat_advantage(row) for row in r]),
            )
            error = np.abs(ours[2] - theirs[2]).max()
            print(
                f"OrderGrad {preset:<18} {(prompts, n, k)!s:<15} {1e3 * theirs[0]:>7.2f} ms, ours "
                f"{1e3 * ours[0]:.3f} ms, at most {error:.0e} apart"
            )
            assert error <= most, preset


def report(missed: list[str]) -> None:
    """Print times and errors, and add what misses its target to `missed`."""
    print("\nother projects' formulas")
    rewards = np.random.default_rng(3).random((128, 16))
    ours, theirs = measure(
        lambda: advantages(rewards, "pkpo_sloo", 8), lambda: pkpo_sloo(rewards, 8)
    )
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-10, atol=1e-13)
    print(f"PKPO sloo (128, 16, 8): {1e3 * theirs[0]:.2f} ms, ours {1e3 * ours[0]:.3f} ms")
    ordergrad()
    for correct, k in ((1, 256), (1, 16), (12, 16)):
        passed = (np.arange(256) < correct).astype(float)
        ours, theirs = measure(
            lambda p=passed, k=k: max_at_k(p, k), lambda p=passed, k=k: bootstrap_best(p, k)
        )
        exact = float(pass_at_k(256, correct, k))
        print(
            f"bootstrap best@{k}, {correct} of 256 right: {theirs[2]:.3f}, exact {exact:.3f}, "
            f"{1e3 * theirs[0]:.2f} ms, ours {1e3 * ours[0]:.3f} ms"
        )
    answers = np.repeat(np.arange(4), [7, 5, 3, 1])
    right = (answers == 1).astype(float)
    ours, theirs = measure(
        lambda: majority_at_k(right, answers, 8), lambda: consensus(answers, right, 8)
    )
    print(
        f"consensus@8 of 16: {theirs[2]:.4f} (the first of tied answers), exact {ours[2]:.4f}, "
        f"{1e3 * theirs[0]:.0f} ms, ours {1e3 * ours[0]:.3f} ms (chances kept)"
    )
    answers = np.repeat(np.arange(12), [20, 12, 8, 6, 5, 4, 3, 2, 1, 1, 1, 1])

    def fresh() -> np.ndarray:
        _majority_chances.cache_clear()
        return majority_at_k((answers == 1).astype(float), answers, 16)

    [(seconds, _, _)] = measure(fresh)
    print(f"majority@16 of 64 with 12 answers: {1e3 * seconds:.2f} ms, nothing kept")
    if seconds > MAJORITY_TARGET:
        missed.append(f"majority: {1e3 * seconds:.1f} ms")


if __name__ == "__main__":
    report([])
