"""Do the intervals hold, and do the tests err as often as they say? Simulated, with the package.

    python experiments/coverage.py [--simulations 2000]

Prints two tables in Markdown and a share. The first table compares equal models over problems:
their chances to solve a problem are Beta(0.4, 1.6), moved by 0.8 in log odds for either model, and
256 samples are drawn. The second has differences of two models over training seeds: normal, with
the standard deviation 0.11 over problems, 0.05 of what is left (samples), and that of the seeds as
said. The share is that of comparisons which call one of two equal models best at any k, corrected
over all k as `compare` does: models as in the first table, over 100 problems.
"""

import argparse

import numpy as np

from maxatk.objectives import pass_at_k
from maxatk.statistics.intervals import default_ks
from maxatk.statistics.significance import (
    PairedDifference,
    adjusted_p_values,
    over_seeds,
    over_seeds_and_problems,
    paired_difference,
)

PROBLEMS = (5, 10, 20, 30, 40, 60, 100, 200)
SAMPLES = 256
KS = (1, 8, 128)
OVER_PROBLEMS = 0.11
REST = 0.05
COMPARED = 100  # problems of two equal models


def coverage_and_level(test: PairedDifference, truth: np.ndarray | float) -> str:
    """Return the share of intervals that hold the truth, and of tests below 0.05.

    Where all differences are the same there is no interval: that simulation counts for the tests
    alone.
    """
    there = ~np.isnan(test.low)
    holds = (test.low <= truth) & (truth <= test.high)
    return f"{holds[there].mean():.3f} / {(test.p < 0.05).mean():.3f}"


def equal_models(problems: int, k: int, draw: np.random.Generator, simulations: int) -> str:
    """Return what the paired test says of two models that are equal over all problems."""
    first, second = passed_of_equal_models(problems, draw, simulations)
    values = [pass_at_k(SAMPLES, passed, k) for passed in (first, second)]
    return coverage_and_level(paired_difference(*values), 0.0)


def passed_of_equal_models(
    problems: int, draw: np.random.Generator, simulations: int
) -> list[np.ndarray]:
    """Return how many samples pass of two models that are equal: (problems, simulations) each."""
    chances = draw.beta(0.4, 1.6, (problems, simulations))
    odds = np.log(chances) - np.log1p(-chances)
    passed = []
    for _ in range(2):
        moved = 1 / (1 + np.exp(-(odds + 0.8 * draw.standard_normal(odds.shape))))
        passed.append(draw.binomial(SAMPLES, moved))
    return passed


def called_best(problems: int, draw: np.random.Generator, simulations: int) -> float:
    """Return the share of comparisons of equal models that call one of them best at any k."""
    first, second = passed_of_equal_models(problems, draw, simulations)
    p_at_k = [
        paired_difference(pass_at_k(SAMPLES, first, k), pass_at_k(SAMPLES, second, k)).p
        for k in default_ks(SAMPLES)
    ]
    by_simulation = np.array(p_at_k).T  # (simulations, ks)
    lowest = [min(adjusted_p_values(p_values.tolist())) for p_values in by_simulation]
    return float(np.mean(np.array(lowest) <= 0.05))


def over_trainings(
    seeds: int, problems: int, spread: float, shared: bool, draw: np.random.Generator, runs: int
) -> str:
    """Return what the package says of models that are equal over seeds and problems."""
    of_seeds = spread * draw.standard_normal((seeds, 1, runs))
    of_problems = OVER_PROBLEMS * draw.standard_normal((1 if shared else seeds, problems, runs))
    rest = REST * draw.standard_normal((seeds, problems, runs))
    differences = of_seeds + of_problems + rest
    if seeds >= 3:
        if shared:
            return coverage_and_level(over_seeds_and_problems(differences), 0.0)
        return coverage_and_level(over_seeds(list(differences)), 0.0)
    # Fewer say nothing of other trainings: the truth is that of these over other problems.
    rows = differences.mean(axis=0) if shared else differences.reshape(-1, runs)
    return coverage_and_level(
        paired_difference(rows, np.zeros_like(rows)), of_seeds.mean(axis=0)[0]
    )


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return rows as a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the tables, coverage of the 95% interval / share of true nulls with p < 0.05."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=2000)
    simulations = parser.parse_args().simulations
    draw = np.random.default_rng(0)
    print("One training a model: the paired t-test over problems.\n")
    heads = ["k", *(f"{problems} problems" for problems in PROBLEMS)]
    rows = [[str(k), *(equal_models(p, k, draw, simulations) for p in PROBLEMS)] for k in KS]
    print(table(heads, rows))
    print("\nOne training or two: over problems, which says nothing of other trainings (p).")
    print("Three to five: over seeds with problems of their own, crossed with the same problems.\n")
    heads = ["seeds", "problems of seeds", "spread of seeds", *heads[1:]]
    rows = []
    for seeds in range(1, 6):
        for shared in (True,) if seeds == 1 else (False, True):
            for spread in (0.02, 0.1) if seeds < 3 else (0.0, 0.02, 0.1):
                cells = [
                    over_trainings(seeds, problems, spread, shared, draw, simulations)
                    for problems in PROBLEMS
                ]
                rows.append([str(seeds), "the same" if shared else "own", f"{spread:g}", *cells])
    print(table(heads, rows))
    share = called_best(COMPARED, np.random.default_rng(1), simulations)
    print(f"\nOne of two equal models is called best at any k, {COMPARED} problems: {share:.3f}")


if __name__ == "__main__":
    main()
