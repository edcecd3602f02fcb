"""Time and memory of the max@k credits against the matrix form of "The Best of N Worlds".

The matrix form is written here once more from eq. (9) and appendix E: an n x n matrix of subset
counts on-policy, one for every prompt off-policy. Both sides get unsorted float64 rewards and give
the weights in the order of the samples; one thread. The formulas of other projects are written anew
from their papers. Every method has a time, to compare with that of another commit. Exits with 1
where a target is missed.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import sys

import numpy as np

import objectives_peers as peers
from maxatk.objectives import METHODS, Method, OrderWeights, advantages
from maxatk.objectives.subsets import max_weights, pair_weights, triple_weights
from timing import measure

SIZES = [
    (128, 8, 4),
    (128, 16, 8),
    (1024, 16, 8),
    (512, 64, 16),
    (256, 256, 64),
    (64, 1024, 256),
    (64, 4096, 1024),
]
LARGEST_MATRIX = 1 << 30  # bytes of all (P, n, n) arrays together
EXACT_TARGET = 5e-3  # seconds, (1024, 16, 8)
LEAST_SPEED = 1.0  # on-policy from n = 16 up: never slower than the matrix form
SPEEDUP_TARGET = 10.0  # on-policy at n = 4096
WEIGHTS_TARGETS = {(1024, 16, 8): 0.5e-3, (64, 4096, 1024): 60e-3}  # seconds, any weights

ON_POLICY = Method(credit="max_at_k")
FIRST_ORDER = Method(credit="max_at_k", correction="first_order")
EXACT = Method(credit="max_at_k", correction="exact")


# The listings make their weights at every call: `__wrapped__` goes around what we keep.
def matrix_on_policy(rewards: np.ndarray, k: int) -> np.ndarray:
    order = np.argsort(rewards, axis=-1)
    n = rewards.shape[1]
    top = max_weights.__wrapped__(n, k)
    pair = pair_weights.__wrapped__(n, k)
    weights = np.tril(np.repeat(pair[:, None], n, axis=1), -1) + np.diag(top)
    return unsorted(np.take_along_axis(rewards, order, -1) @ weights, order)


def matrix_first_order(rewards: np.ndarray, log_ratios: np.ndarray, k: int) -> np.ndarray:
    order = np.argsort(rewards, axis=-1)
    r = np.take_along_axis(rewards, order, -1)
    d = np.take_along_axis(np.expm1(log_ratios), order, -1)
    n = r.shape[1]
    top = max_weights.__wrapped__(n, k)
    pair = pair_weights.__wrapped__(n, k)
    triple = triple_weights(n, k)
    earlier = np.cumsum(d, axis=1) - d
    weights = pair[:, None] * (1 + d[:, :, None] + d[:, None, :])
    weights += triple[:, None] * (earlier[:, :, None] - d[:, None, :])
    weights = np.tril(weights, -1)
    weights[:, np.arange(n), np.arange(n)] = top * (1 + d) + pair * earlier
    return unsorted((r[:, None] @ weights)[:, 0], order)


def unsorted(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    result = np.empty_like(values)
    np.put_along_axis(result, order, values, -1)
    return result


def line(name: str, size: tuple[int, int, int], ours: tuple, theirs: tuple | None = None) -> float:
    """Print one row of the table and return how many times faster ours is."""
    row = f"{name:<12} {size!s:<17} {1e3 * ours[0]:>9.2f} {ours[1]:>8.1f}"
    if theirs is None:
        print(f"{row}   the matrix does not fit: {8 * size[0] * size[1] ** 2 / 2**30:.1f} GiB")
        return np.inf
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-8, atol=1e-12)
    speed = theirs[0] / ours[0]
    memory = theirs[1] / ours[1]
    print(f"{row} {1e3 * theirs[0]:>9.2f} {theirs[1]:>8.1f} {speed:>7.1f}x {memory:>7.1f}x")
    return speed


def time_every_method() -> None:
    """Time the methods that look at rewards alone, with ratios where they have a correction."""
    print("\nthe methods: ms")
    rng = np.random.default_rng(1)
    for size in (SIZES[0], SIZES[2], SIZES[3], SIZES[-1]):
        prompts, n, k = size
        rewards = rng.random((prompts, n))
        logs = rng.normal(size=(prompts, n)) * 0.02
        for name, method in METHODS.items():
            if method.credit_row.needs_answers:
                continue
            ratios = logs if method.correction != "none" else None
            [(seconds, _, _)] = measure(
                lambda r=rewards, x=ratios, m=method, k=k: advantages(r, m, k, log_ratios=x)
            )
            print(f"{name:<22} {size!s:<17} {1e3 * seconds:>9.3f}")


def time_any_weights(missed: list[str]) -> None:
    """Time replace_one for weights that are no maximum, by reward and by a score."""
    print("\nreplace_one of any weights")
    rng = np.random.default_rng(2)
    for size, limit in WEIGHTS_TARGETS.items():
        prompts, n, k = size
        rewards = rng.random((prompts, n))
        scores = rng.random((prompts, n))
        row = Method(credit=OrderWeights.cvar(0.3, of=k), baseline="replace_one")
        columns = {"rewards": None, "a score": scores, "a tied score": scores.round(1)}
        for name, column in columns.items():
            [(seconds, most, _)] = measure(
                lambda r=rewards, c=column, m=row: advantages(r, m, selection=c)
            )
            print(f"by {name:<14} {size!s:<17} {1e3 * seconds:>9.3f} ms {most:>8.1f} MiB")
            if column is None and seconds > limit:
                missed.append(f"any weights {size}: {1e3 * seconds:.2f} ms")
    rewards = rng.random((1024, 16))
    logs = rng.normal(size=(1024, 16)) * 0.02
    for name in ("leave_one_out", "replace_one"):
        row = Method(credit=OrderWeights.cvar(0.3, of=8), correction="exact", baseline=name)
        [(seconds, _, _)] = measure(lambda m=row: advantages(rewards, m, log_ratios=logs))
        print(f"exact, {name:<14} (1024, 16, 8) {1e3 * seconds:>9.3f} ms")


def main() -> int:
    rng = np.random.default_rng(0)
    missed = []
    print(
        f"{'credit':<12} {'(P, n, k)':<17} {'ms':>9} {'MiB':>8} {'matrix ms':>9} {'MiB':>8}", end=""
    )
    print(f" {'faster':>8} {'smaller':>8}")
    for size in SIZES:
        prompts, n, k = size
        rewards = rng.random((prompts, n))
        logs = rng.normal(size=(prompts, n)) * 0.02
        pair = measure(
            lambda r=rewards, k=k: advantages(r, ON_POLICY, k),
            lambda r=rewards, k=k: matrix_on_policy(r, k),
        )
        speed = line("on-policy", size, *pair)
        if (n >= 16 and speed < LEAST_SPEED) or (n >= 4096 and speed < SPEEDUP_TARGET):
            missed.append(f"on-policy {size}: {speed:.1f}x")

        def ours(r=rewards, x=logs, k=k):
            return advantages(r, FIRST_ORDER, k, log_ratios=x, form="reinforce")

        def matrix(r=rewards, x=logs, k=k):
            return matrix_first_order(r, x, k)

        # Four (P, n, n) arrays live at once.
        fits = 4 * 8 * prompts * n * n <= LARGEST_MATRIX
        line("first order", size, *(measure(ours, matrix) if fits else measure(ours)))
    print("\nexact off-policy (no other implementation to compare with)")
    for size in SIZES:
        prompts, n, k = size
        rewards = rng.random((prompts, n))
        logs = rng.normal(size=(prompts, n)) * 0.02
        for name, method in (("leave-one-out", "bon_off_policy_exact"), ("credit", EXACT)):
            [(seconds, most, _)] = measure(
                lambda r=rewards, x=logs, k=k, m=method: advantages(r, m, k, log_ratios=x)
            )
            print(f"{name:<14} {size!s:<17} {1e3 * seconds:>9.2f} ms {most:>8.1f} MiB")
            if size == (1024, 16, 8) and name == "leave-one-out" and seconds > EXACT_TARGET:
                missed.append(f"exact {name} {size}: {1e3 * seconds:.2f} ms")
    time_every_method()
    time_any_weights(missed)
    peers.report(missed)
    print("\n" + ("missed: " + "; ".join(missed) if missed else "all targets met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
