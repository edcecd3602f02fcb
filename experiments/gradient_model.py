"""Variance of the gradients that the methods estimate, on a language model.

    python experiments/gradient_model.py [EVALUATION] [--prompts 8]

EVALUATION is the folder of an evaluation of a small model at temperature 1; without one, the
built-in model is made and evaluated. For each of some prompts its completions are an exact finite
policy: each has the same chance, and its score is the gradient of its log-probability by all
parameters, less the mean over the completions. So the gradient of max@k is known, and E|G - g|^2 is
that of groups drawn from the completions. Printed is the sum over the prompts relative to
`bon_loo1`, for the stored rewards and for 0/1 rewards. Prompts are the first ones whose rewards
differ. Memory: 4 bytes x completions x parameters.
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import json
import tempfile
from pathlib import Path

import numpy as np
from transformers import AutoModelForCausalLM

from maxatk.diagnose.gradients import group_weights, log_prob_gradients, max_gradient, pools
from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.models import load_tokenizer
from maxatk.sampling import SamplingSettings

SIZES = [(8, 4), (16, 4), (16, 8), (32, 8)]
COMPARED = ("bon_loo1", "bon_replace", "bon_centred", "pkpo_sloo")
GROUPS = 1500


def error(method: str, rewards: np.ndarray, products: np.ndarray, n: int, k: int) -> float:
    """Return E|G - g|^2 over groups of n that are drawn from the completions."""
    off = group_weights(rewards, method, n, k, groups=GROUPS)
    off -= max_gradient(rewards, None, np.eye(len(rewards)), k)
    return float(np.einsum("gi,ij,gj->g", off, products, off, optimize=True).mean())


def made(folder: Path, prompts: int) -> Path:
    """Return an evaluation of the built-in model, made here."""
    warm_start = WarmStart(problems=45000)
    mini = MiniSettings(train_problems=1, test_problems=2 * prompts, warm_start=warm_start)
    build_mini(folder, mini)
    settings = SamplingSettings(samples=256, max_new_tokens=32, temperature=1.0)
    places = {"problems": folder / "test.jsonl", "out": folder / "eval"}
    evaluate(EvalRecipe(model=str(folder / "base"), **places, sampling=settings))
    return folder / "eval"


def compare(evaluation: Path, prompts: int) -> None:
    """Print the table."""
    settings = json.loads((evaluation / "manifest.json").read_text())["settings"]["model"]
    tokenizer = load_tokenizer(settings["model"])
    model = AutoModelForCausalLM.from_pretrained(settings["model"]).float().eval()
    parameters = list(model.parameters())
    measured = []
    encode = lambda text: tokenizer(text)["input_ids"]  # noqa: E731
    for pool in pools(evaluation, encode, problems=prompts, samples=256):
        end = [tokenizer.eos_token_id]
        gradients = log_prob_gradients(model, parameters, tokenizer, pool, end=end)
        measured.append((pool.rewards, (gradients @ gradients.T).astype(float)))
    means = [rewards.mean() for rewards, _ in measured]
    passed = [(rewards >= 1).mean() for rewards, _ in measured]
    print(f"{settings['model']}: {len(measured)} prompts, mean reward {min(means):.2f} to", end=" ")
    print(f"{max(means):.2f}, passed {min(passed):.2f} to {max(passed):.2f}")
    print(f"{'rewards':<8} {'n, k':<7}", *(f"{name:>12}" for name in COMPARED[1:]))
    for name in ("stored", "0/1"):
        for n, k in SIZES:
            totals = np.zeros(len(COMPARED))
            for rewards, products in measured:
                used = rewards if name == "stored" else (rewards >= 1).astype(float)
                totals += [error(method, used, products, n, k) for method in COMPARED]
            cells = (f"{ratio:>12.2f}" for ratio in totals[1:] / totals[0])
            print(f"{name:<8} {f'{n}, {k}':<7}", *cells, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("evaluation", type=Path, nargs="?")
    parser.add_argument("--prompts", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options.evaluation or made(Path(folder), options.prompts), options.prompts)


if __name__ == "__main__":
    main()
