"""The factor that a mean-centred credit costs: its expected gradient over that of max@k.

One parameter: a sample is right with probability p. All outcomes of a group are enumerated, with
fractions, so that nothing here is rounded or sampled.
"""

from fractions import Fraction
from itertools import combinations, product
from math import comb


def credits(rewards, k):
    """Credit of each sample: the sum of the best of all k-subsets that hold it, over C(n, k)."""
    n = len(rewards)
    subsets = list(combinations(range(n), k))
    return [
        Fraction(sum(max(rewards[j] for j in s) for s in subsets if i in s), comb(n, k))
        for i in range(n)
    ]


def expected_gradient(n, k, p):
    """Expectation of the sum of centred credit times score of a sample, by d/dp."""
    total = Fraction(0)
    for rewards in product((0, 1), repeat=n):
        probability = p ** sum(rewards) * (1 - p) ** (n - sum(rewards))
        credit = credits(rewards, k)
        mean = sum(credit) / n
        score = [1 / p if reward else -1 / (1 - p) for reward in rewards]
        total += probability * sum((c - mean) * s for c, s in zip(credit, score, strict=True))
    return total


def factor(n, k, p=Fraction(1, 3)):
    """The expected gradient as a multiple of d/dp (1 - (1 - p)^k), which is k (1 - p)^(k - 1)."""
    return expected_gradient(n, k, p) / (k * (1 - p) ** (k - 1))


if __name__ == "__main__":
    for k in (1, 2, 4, 6, 7, 8):
        print(f"n 8, k {k}: {factor(8, k)}, and 1 - k/n is {1 - Fraction(k, 8)}")
