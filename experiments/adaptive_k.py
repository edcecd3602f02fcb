"""Does a k that listens to the training beat one that falls by the clock?

    python experiments/adaptive_k.py WORK --seeds 11 12 13 --out docs/study/adaptive_k

Trains the built-in model with `bon_loo1` for max@8 and lets k fall by a rule: k halves, down to 1,
once max@8 of the groups of the last 20 rollout batches is not above that of the 20 before by more
than the standard error of the difference; then both windows start anew. Everything else is the arm
`bon_loo1` of `recipes/mini/distillation.yaml`, whose arms `bon_loo1` (k stays 8) and `k falls to 1`
(`k_schedule: linear`) are the rivals. WORK is the folder of that study (`work`), which has to be
finished for the seeds. A training or evaluation that has ended is not repeated.

Written are `scores.csv` (a row a model and seed) and `differences.csv` (t over the seeds).
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import csv
import json
from pathlib import Path

import numpy as np

from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.evaluation.results import Results, read_results
from maxatk.objectives import max_at_k
from maxatk.settings import find_recipe, from_mapping
from maxatk.statistics.significance import over_seeds
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import SeededModel, seeded_models
from maxatk.train import TrainRecipe, run
from maxatk.train.trainer import MaxAtKTrainer

KS = (1, 8, 128)
WINDOW = 20  # rollout batches
ARMS = ("bon_loo1", "k falls to 1", "adaptive")


class Falling:
    """An objective whose k halves once what is trained for has stopped to rise."""

    def __init__(self, objective) -> None:
        self._objective = objective
        self._k = objective.k
        self._seen: list[float] = []
        self.history: list[int] = []

    def __getattr__(self, name: str):
        return getattr(self._objective, name)

    def k_at(self, progress: float) -> int:  # noqa: ARG002 - it listens instead
        return self._k

    def observe(self, rewards: np.ndarray) -> None:
        self.history.append(self._k)
        self._seen.append(float(np.nanmean(max_at_k(rewards, self._objective.k))))
        if len(self._seen) < 2 * WINDOW:
            return
        before, now = np.array(self._seen[-2 * WINDOW :]).reshape(2, WINDOW)
        error = np.sqrt((before.var(ddof=1) + now.var(ddof=1)) / WINDOW)
        if now.mean() - before.mean() < error and self._k > 1:
            self._k //= 2
            self._seen.clear()


class Trainer(MaxAtKTrainer):
    """The trainer with such an objective; what k was goes beside its model."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._learner.objective = self.falling = Falling(self._learner.objective)

    def _draw_rollout_batch(self, rows):
        drawn, scored, output = super()._draw_rollout_batch(rows)
        self.falling.observe(drawn.rewards)
        return drawn, scored, output

    def save_model(self, output_dir=None, _internal_call=False) -> None:
        super().save_model(output_dir, _internal_call)
        Path(output_dir, "k.json").write_text(json.dumps(self.falling.history))


def adaptive(work: Path, seeded_model: SeededModel, seed: int) -> Results:
    """Train and evaluate the arm that the study does not have."""
    train, test = (seeded_model.recipes[seeded_model.chain[name]] for name in ("train", "eval"))
    model = work / f"train-adaptive-{seed}"
    out = work / f"eval-adaptive-{seed}"
    run.MaxAtKTrainer = Trainer
    run.train(from_mapping(TrainRecipe, {**train, "out": str(model)}, where="train"))
    print(seed, json.loads((model / "k.json").read_text()), flush=True)
    return evaluate(
        from_mapping(EvalRecipe, {**test, "model": str(model), "out": str(out)}, where="eval")
    )


def values(results: Results) -> np.ndarray:
    """Return max@k of the held-out problems (problems, KS)."""
    by_k = results.per_problem.values["max@k"]
    return np.array([by_k[k] for k in KS], dtype=float).T


def table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def write(out: Path, values_of_arms: dict[str, dict[int, np.ndarray]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    names = [f"max@{k}" for k in KS]
    rows = [
        [arm, str(seed), *(f"{value:.4f}" for value in by_seed[seed].mean(0))]
        for arm, by_seed in values_of_arms.items()
        for seed in by_seed
    ]
    table(out / "scores.csv", ["k", "seed", *names], rows)
    rows = []
    for first, second in (("adaptive", "k falls to 1"), ("adaptive", "bon_loo1")):
        by_seed = [
            values_of_arms[first][seed] - values_of_arms[second][seed]
            for seed in values_of_arms[first]
        ]
        test = over_seeds(by_seed)
        above = (np.array([of_seed.mean(0) for of_seed in by_seed]) > 0).sum(0)
        for position, name in enumerate(names):
            low = test.low[position]
            high = test.high[position]
            interval = f"[{low:+.3f}, {high:+.3f}]"
            p = f"{test.p[position]:.3f}"
            seeds = f"{above[position]} of {len(by_seed)}"
            row = [f"{first} − {second}", name, f"{test.mean[position]:+.3f}", interval, p, seeds]
            rows.append(row)
    head = ["first − second", "metric", "difference", "95%, t over seeds", "p", "seeds above"]
    table(out / "differences.csv", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    recipe = find_recipe(Path("mini/distillation.yaml"))
    study = load_study(recipe, [f"seeds={options.seeds}", f"work={options.work}"])
    values_of_arms: dict[str, dict[int, np.ndarray]] = {arm: {} for arm in ARMS}
    for seeded_model in seeded_models(study):
        name = seeded_model.variant.name
        if name in ARMS:
            results = read_results(options.work / seeded_model.chain["eval"] / "results.json")
            values_of_arms[name][seeded_model.seed] = values(results)
        if name == "bon_loo1":
            values_of_arms["adaptive"][seeded_model.seed] = values(
                adaptive(options.work, seeded_model, seeded_model.seed)
            )
    write(options.out, values_of_arms)


if __name__ == "__main__":
    main()
