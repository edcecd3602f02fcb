"""What evaluation adds to sampling and verification, and its sampling loop beside `generate`.

Usage: python bench/evaluate.py [FOLDER]. The built-in model is made once, in FOLDER if given.
"""

import itertools
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from maxatk.evaluation import ModelSettings, SamplingSettings, evaluate, load_backend, score
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.models import prompt_ids
from maxatk.problems import load_problems
from maxatk.verifier import Verifier

PROBLEMS, SAMPLES, TOKENS = 24, 64, 32  # TOKENS: as the recipe of the built-in model
MOST_OVER, LEAST_SPEED = 1.15, 0.9
TURNS = 3


def clock(work, *arguments):
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def overlap(model, problems, folder, settings):
    """Print the seconds of sampling alone, verification alone and both, medians of turns."""

    def sample():  # with the loading of the model, which `evaluate` does too
        sampler = load_backend(model, ModelSettings(batch_size=SAMPLES))
        sampler.check({problem.id: problem.prompt for problem in problems}, settings)
        for problem in problems:
            sampler.sample(problem.id, problem.prompt, range(SAMPLES), settings)

    def both(verifier, out):
        batches = ModelSettings(batch_size=SAMPLES)
        evaluate(model, problems, out, settings=settings, verifier=verifier, model_settings=batches)

    def verify(verifier, samples, out):
        score(samples, problems, out, verifier=verifier)

    found = {"sampling": [], "verification": [], "evaluate": []}
    with Verifier(workers=1) as verifier:
        both(verifier, folder / "warm")
        for turn in range(TURNS):
            out, again = folder / f"both-{turn}", folder / f"verified-{turn}"
            found["evaluate"].append(clock(both, verifier, out))
            found["sampling"].append(clock(sample))
            found["verification"].append(clock(verify, verifier, out / "samples.jsonl", again))
    medians = {name: sorted(values)[TURNS // 2] for name, values in found.items()}
    ratio = medians["evaluate"] / max(medians["sampling"], medians["verification"])
    print("  ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()))
    print(f"evaluate / the longer of the two: {ratio:.2f} (aim: at most {MOST_OVER})")


def loop(model, problems, settings):
    """Print the tokens a second of our loop and of `generate`, each at its best batch size."""
    rates = {"maxatk": {}, "generate": {}}
    for rows, _ in itertools.product((16, 64, 256), range(TURNS)):
        sampler = load_backend(model, ModelSettings(batch_size=rows))
        for name, draw in (("maxatk", ours), ("generate", theirs)):
            drawn = 0
            started = time.perf_counter()
            for problem in problems:
                drawn += draw(sampler, problem, rows, settings)
            rate = drawn / (time.perf_counter() - started)
            rates[name][rows] = max(rate, rates[name].get(rows, 0))
    for name, found in rates.items():
        print(name, "  ".join(f"{rows} rows: {rate:,.0f} tokens/s" for rows, rate in found.items()))
    ratio = max(rates["maxatk"].values()) / max(rates["generate"].values())
    print(f"maxatk / generate, each at its best: {ratio:.2f} (aim: at least {LEAST_SPEED})")


def ours(sampler, problem, rows, settings):
    samples = sampler.sample(problem.id, problem.prompt, range(rows), settings)
    return sum(sample.tokens for sample in samples)


def theirs(sampler, problem, rows, settings):
    """`generate` with what a report needs: texts, log-probabilities left out."""
    prompt = torch.tensor([prompt_ids(sampler.tokenizer, problem.prompt)]).repeat(rows, 1)
    with torch.inference_mode():
        tokens = sampler.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=0,
            max_new_tokens=settings.max_new_tokens,
        )[:, prompt.shape[1] :]
    sampler.tokenizer.batch_decode(tokens, skip_special_tokens=True)
    ends = (tokens == sampler.tokenizer.eos_token_id).int()
    before = ends.cumsum(1) - ends == 0  # up to the end token, and that
    return int(before.sum())


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
    loop(model, problems[:2], SamplingSettings(samples=256, max_new_tokens=TOKENS))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
