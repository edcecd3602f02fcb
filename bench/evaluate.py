"""What evaluation adds to sampling and verification.

Usage: python bench/evaluate.py [FOLDER]. The built-in model is made once, in FOLDER if given.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from maxatk.evaluation import EvalRecipe, ScoreRecipe, evaluate, score
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.problems import load_problems
from maxatk.sampling import ModelSettings, SamplingSettings, load_backend
from maxatk.sampling.settings import Request
from maxatk.verifier import Verifier

PROBLEMS = 24
SAMPLES = 64
TOKENS = 32  # as the recipe of the built-in model
MOST_OVER = 1.15
TURNS = 3


def clock(work, *arguments):
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def overlap(model, problems, folder, settings):
    """Print the seconds of sampling alone, verification alone and both, medians of turns."""

    def sample():  # with the loading of the model, which `evaluate` does too
        sampler = load_backend(model, ModelSettings(batch_size=SAMPLES))
        sampler.prepare({problem.id: problem.prompt for problem in problems}, settings)
        requests = [Request(p.id, p.prompt, range(SAMPLES)) for p in problems]
        for _ in sampler.sample(requests, settings):
            pass

    def evaluate_run(verifier, out):
        settings_of_run = {"model": model, "problems": problems, "out": out, "sampling": settings}
        evaluate(EvalRecipe(**settings_of_run, batch_size=SAMPLES), verifier=verifier)

    def verify(verifier, samples, out):
        score(ScoreRecipe(samples=samples, problems=problems, out=out), verifier=verifier)

    seconds = {"sampling": [], "verification": [], "evaluate": []}
    with Verifier(workers=1) as verifier:
        evaluate_run(verifier, folder / "warm")
        for turn in range(TURNS):
            out = folder / f"both-{turn}"
            verified = folder / f"verified-{turn}"
            seconds["evaluate"].append(clock(evaluate_run, verifier, out))
            seconds["sampling"].append(clock(sample))
            seconds["verification"].append(clock(verify, verifier, out / "samples.jsonl", verified))
    medians = {name: sorted(values)[TURNS // 2] for name, values in seconds.items()}
    ratio = medians["evaluate"] / max(medians["sampling"], medians["verification"])
    print("  ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()))
    print(f"evaluate / the longer of the two: {ratio:.2f} (aim: at most {MOST_OVER})")


def main(folder):
    mini = MiniSettings(
        train_problems=1, test_problems=PROBLEMS, warm_start=WarmStart(problems=3200)
    )
    build_mini(folder / "mini", mini)
    problems = load_problems(folder / "mini" / "test.jsonl")
    model = str(folder / "mini" / "base")
    torch.set_num_threads(1)  # two cores: one draws, the other verifies
    runs = folder / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    settings = SamplingSettings(samples=SAMPLES, max_new_tokens=TOKENS)
    overlap(model, problems, runs, settings)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
