"""Memorizing or narrowing: what training changes on the prompts it saw, and on held-out ones.

    python bench/seen_prompts.py WORK --seeds 11 12 13 14 15 --out docs/study/seen_prompts

Evaluates the base, `grpo` and `bon_loo1` of `recipes/mini/distillation.yaml` on 40 prompts that the
training of the seed has seen, with the settings of the study, whose own evaluations are on held-out
prompts. A model that memorizes gains more on the first; one that narrows loses max@128 on both, and
has fewer different programs. WORK is the folder of that study (`work`), which has to be finished
for the seeds. An evaluation that has ended is not repeated.

Written are `scores.csv` (a row a model, seed and kind of prompt) and `differences.csv` (what a
model changes on seen prompts less what it changes on held-out ones, t over the seeds).
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
from maxatk.jsonl import write_jsonl
from maxatk.problems import load_problems
from maxatk.settings import find_recipe, from_mapping
from maxatk.statistics.seeds import over_seeds
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import Place, places

KS = (1, 8, 128)
MODELS = ("base", "grpo", "bon_loo1")
PROMPTS = 40
KINDS = ("seen", "held-out")


def seen_problems(work: Path, trained: Place) -> Path:
    """Return a file with the first prompts that a training recorded."""
    path = work / f"seen-{trained.seed}.jsonl"
    lines = map(json.loads, (work / trained.chain["train"] / "groups.jsonl").open())
    ids = list(dict.fromkeys(line["id"] for line in lines if "group" in line))[:PROMPTS]
    known = {one.id: one for one in load_problems(work / trained.chain["mini"] / "train.jsonl")}
    write_jsonl(path, (known[name].to_json() for name in ids))
    return path


def measured(results: Results) -> np.ndarray:
    """Return max@k and the share of different completions, averaged over the problems."""
    found = [results.metrics["max@k"][k].mean for k in KS]
    return np.array([*found, results.diversity.distinct], dtype=float)


def table(path: Path, header: list[str], rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def write(out: Path, found: dict[tuple[str, str], dict[int, np.ndarray]]) -> None:
    names = [*(f"max@{k}" for k in KS), "distinct"]
    rows = [
        [model, str(seed), kind, *(f"{value:.4f}" for value in by_seed[seed])]
        for (model, kind), by_seed in found.items()
        for seed in by_seed
    ]
    table(out / "scores.csv", ["model", "seed", "prompts", *names], rows)
    rows = []
    for model in MODELS[1:]:
        changes = [
            {seed: found[model, kind][seed] - found["base", kind][seed] for seed in by_seed}
            for kind in KINDS
            for by_seed in [found["base", kind]]
        ]
        more = [{seed: changes[0][seed] - changes[1][seed] for seed in changes[0]}]
        for what, by_seed in zip((*KINDS, "seen − held-out"), [*changes, *more], strict=True):
            tested = over_seeds([values[None] for values in by_seed.values()])
            for place, name in enumerate(names):
                low, high = tested.low[place], tested.high[place]
                interval = f"[{low:+.3f}, {high:+.3f}]"
                rows.append([f"{model} − base", what, name, f"{tested.mean[place]:+.3f}", interval])
    head = ["model − base", "prompts", "metric", "difference", "95%, t over seeds"]
    table(out / "differences.csv", head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    recipe = find_recipe(Path("mini/distillation.yaml"))
    study = load_study(recipe, [f"seeds={asked.seeds}", f"work={asked.work}"])
    found: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    everywhere = {(place.variant.name, place.seed): place for place in places(study)}
    for seed in asked.seeds:
        problems = seen_problems(asked.work, everywhere["grpo", seed])
        for model in MODELS:
            place = everywhere[model, seed]
            stage = place.chain["eval"]
            folder = asked.work / f"eval-seen-{model}-{seed}"
            changed = {"problems": str(problems), "out": str(folder)}
            asking = from_mapping(EvalRecipe, {**place.recipes[stage], **changed}, where="eval")
            results = {
                "seen": evaluate(asking),
                "held-out": read_results(asked.work / stage / "results.json"),
            }
            for kind in KINDS:
                found.setdefault((model, kind), {})[seed] = measured(results[kind])
            print(seed, model, *(np.round(measured(results[k]), 3) for k in KINDS), flush=True)
    write(asked.out, found)


if __name__ == "__main__":
    main()
