"""Do the intervals of a front hold, whose models the other seeds choose? Simulated, by the package.

    python experiments/front_coverage.py [--simulations 4000]

Two sides of some models each are compared over seeds. Every seed moves every model by a normal
number of deviation 1, and the true values of a side's models are normal with the spread that the
table says. A seed is compared by the model of either side that is best over the other seeds. The
truth of a simulation is the mean true difference of the models that were chosen.
"""

import argparse

import numpy as np

from maxatk.statistics.significance import over_seeds, variance_of_shared_choices

SEEDS = (3, 4, 5, 8)
SIDES = ((1, 1), (2, 2), (8, 24))  # models of either side
SPREADS = (0.0, 1.0, 5.0)


def chosen_by_others(values: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the value and the truth of the model that is chosen for each seed: (seeds, runs).

    values: (models, seeds, runs); truth: (models, runs).
    """
    runs = np.arange(values.shape[2])
    reported = []
    true_values = []
    for seed in range(values.shape[1]):
        others = np.delete(values, seed, axis=1)
        model = others.mean(axis=1).argmax(axis=0)
        reported.append(values[model, seed, runs])
        true_values.append(truth[model, runs])
    return np.array(reported), np.array(true_values)


def coverage(
    seeds: int, sides: tuple[int, int], spread: float, draw: np.random.Generator, runs: int
) -> str:
    """Return the share of 95% intervals that hold the truth, as of other values / corrected."""
    differences = np.zeros((seeds, runs))
    truths = np.zeros((seeds, runs))
    for sign, models in zip((1, -1), sides, strict=True):
        truth = spread * draw.standard_normal((models, runs))
        values = truth[:, None] + draw.standard_normal((models, seeds, runs))
        reported, true_values = chosen_by_others(values, truth)
        differences += sign * reported
        truths += sign * true_values
    by_seed = list(differences[:, None])
    truth_of_runs = truths.mean(axis=0)
    shares = []
    for factor in (1.0, variance_of_shared_choices(seeds)):
        test = over_seeds(by_seed, variance_factor=factor)
        holds = (test.low <= truth_of_runs) & (truth_of_runs <= test.high)
        shares.append(f"{holds.mean():.3f}")
    return " / ".join(shares)


def main() -> None:
    """Print the shares of intervals that hold: of independent seeds / for seeds that choose."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=4000)
    simulations = parser.parse_args().simulations
    draw = np.random.default_rng(0)
    print("| models | spread |", " | ".join(f"{seeds} seeds" for seeds in SEEDS), "|")
    print("|---|---|", "|".join("---" for _ in SEEDS), "|", sep="")
    for sides in SIDES:
        for spread in SPREADS:
            cells = [coverage(seeds, sides, spread, draw, simulations) for seeds in SEEDS]
            print(f"| {sides[0]} and {sides[1]} | {spread:g} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
