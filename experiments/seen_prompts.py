"""Memorizing or narrowing: what training changes on the prompts it saw, and on held-out ones.

    python experiments/seen_prompts.py smollm2/hidden_long WORK --seeds 2 3 4 --out docs/study/seen

Evaluates the base, `grpo` and `bon_loo1` of a study on prompts that the training of the seed has
seen, with the settings of the study, whose own evaluations are on held-out prompts. A model that
memorizes gains more on the first; one that narrows loses the best of many on both, and writes fewer
different programs. WORK is the folder of the study's stages, which have to be finished for the
seeds. An evaluation that has ended is not repeated.

Written are `scores.csv` (a row a model, seed and kind of prompt) and, from three seeds on,
`differences.csv` (what a model changes on seen prompts less what it changes on held-out ones, t
over the seeds).
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import csv
import itertools
import json
from pathlib import Path

import numpy as np

from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.evaluation.results import Results, read_results
from maxatk.jsonl import write_jsonl
from maxatk.problems import load_problems
from maxatk.settings import find_recipe, from_mapping
from maxatk.statistics.significance import FEWEST_SEEDS, over_seeds
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import SeededModel, seeded_models

MODELS = ("base", "grpo", "bon_loo1")
PROMPTS = 40
KINDS = ("seen", "held-out")

Measured = dict[str, float]


def seen_problems(work: Path, trained: SeededModel) -> Path:
    """Return a file with the first prompts that a training recorded."""
    path = work / f"seen-{trained.seed}.jsonl"
    lines = map(json.loads, (work / trained.chain["train"] / "groups.jsonl").open())
    ids = list(dict.fromkeys(line["id"] for line in lines if "group" in line))[:PROMPTS]
    problems = load_problems(trained.recipes[trained.chain["train"]]["problems"])
    by_id = {problem.id: problem for problem in problems}
    write_jsonl(path, (by_id[name].to_json() for name in ids))
    return path


def measured(results: Results) -> Measured:
    """Return max@k and how many of the samples are different programs, means over the problems."""
    means = {f"max@{k}": mean.mean for k, mean in results.metrics["max@k"].items()}
    return {**means, "programs": results.diversity.programs}


def table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def change(model: dict[int, Measured], base: dict[int, Measured], name: str) -> np.ndarray:
    """Return what a model changes in each seed; (seeds, 1, 1)."""
    return np.array([[[model[seed][name] - base[seed][name]]] for seed in base])


def write(out: Path, measured_of_models: dict[tuple[str, str], dict[int, Measured]]) -> None:
    names = list(next(iter(measured_of_models["base", "seen"].values())))
    rows = [
        [model, str(seed), kind, *(f"{values[name]:.4f}" for name in names)]
        for (model, kind), by_seed in measured_of_models.items()
        for seed, values in by_seed.items()
    ]
    table(out / "scores.csv", ["model", "seed", "prompts", *names], rows)
    if len(measured_of_models["base", "seen"]) < FEWEST_SEEDS:
        return
    rows = []
    for model, name in itertools.product(MODELS[1:], names):
        changes = {
            kind: change(measured_of_models[model, kind], measured_of_models["base", kind], name)
            for kind in KINDS
        }
        changes["seen − held-out"] = changes["seen"] - changes["held-out"]
        for kind, by_seed in changes.items():
            test = over_seeds(list(by_seed))
            low = float(test.low[0])
            high = float(test.high[0])
            interval = f"[{low:+.3f}, {high:+.3f}]"
            rows.append([f"{model} − base", kind, name, f"{by_seed.mean():+.3f}", interval])
    head = ["model − base", "prompts", "metric", "difference", "95%, t over seeds"]
    table(out / "differences.csv", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    study = load_study(
        find_recipe(options.recipe), [f"seeds={options.seeds}", f"work={options.work}"]
    )
    measured_of_models: dict[tuple[str, str], dict[int, Measured]] = {}
    all_models = {
        (seeded_model.variant.name, seeded_model.seed): seeded_model
        for seeded_model in seeded_models(study)
    }
    for seed in options.seeds:
        problems = seen_problems(options.work, all_models["grpo", seed])
        for model in MODELS:
            seeded_model = all_models[model, seed]
            stage = seeded_model.chain["eval"]
            folder = options.work / f"eval-seen-{model}-{seed}"
            changed = {"problems": str(problems), "out": str(folder)}
            asking = from_mapping(
                EvalRecipe, {**seeded_model.recipes[stage], **changed}, where="eval"
            )
            results = {
                "seen": evaluate(asking),
                "held-out": read_results(options.work / stage / "results.json"),
            }
            for kind in KINDS:
                measured_of_models.setdefault((model, kind), {})[seed] = measured(results[kind])
                print(seed, model, kind, measured_of_models[model, kind][seed], flush=True)
    write(options.out, measured_of_models)


if __name__ == "__main__":
    main()
