"""Variance of the gradients that the methods estimate, on a language model.

    python bench/gradient_model.py [EVALUATION] [--prompts 8]

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
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gradient import max_gradient
from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.jsonl import read_jsonl
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.objectives import advantages
from maxatk.sampling import SamplingSettings

SIZES = [(8, 4), (16, 4), (16, 8), (32, 8)]
COMPARED = ("bon_loo1", "bon_replace", "bon_centred", "pkpo_sloo")
GROUPS = 1500


def pools(folder: Path, prompts: int) -> list[tuple[str, list[str], np.ndarray]]:
    """Return prompt, completions that ended and rewards of the first problems with a signal."""
    prompt = {
        row["problem_id"]: row["prompt"] for row in read_jsonl(folder / "prompts.jsonl", dict)
    }
    scores = read_jsonl(folder / "scores.jsonl", dict)
    reward = {(row["problem_id"], row["sample"]): row["reward"] for row in scores}
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in read_jsonl(folder / "samples.jsonl", dict):
        scored = reward[row["problem_id"], row["sample"]]
        if row["finish_reason"] == "stop" and scored is not None:
            found[row["problem_id"]].append((row["completion"], scored))
    kept = []
    for problem, pairs in found.items():
        texts, rewards = zip(*pairs, strict=True)
        if len(set(rewards)) > 1:
            kept.append((prompt[problem], list(texts), np.array(rewards)))
    return kept[:prompts]


def gram(model, tokenizer, prompt: str, completions: list[str]) -> np.ndarray:
    """Return the products (m, m) of the centred scores of m completions."""
    head = tokenizer(prompt)["input_ids"]
    parameters = [p for p in model.parameters() if p.requires_grad]
    scores = np.empty((len(completions), sum(p.numel() for p in parameters)), dtype=np.float32)
    for row, text in zip(scores, completions, strict=True):
        tail = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        ids = torch.tensor([[*head, *tail]])
        log_p = model(ids[:, :-1]).logits[0, len(head) - 1 :].log_softmax(-1)
        chosen = log_p.gather(1, ids[0, len(head) :, None]).sum()
        gradients = torch.autograd.grad(chosen, parameters)
        row[:] = torch.cat([g.reshape(-1) for g in gradients]).numpy()
    scores -= scores.mean(axis=0)
    return (scores @ scores.T).astype(float)


def error(method: str, rewards: np.ndarray, products: np.ndarray, n: int, k: int) -> float:
    """Return E|G - g|^2 over groups of n that are drawn from the completions."""
    size = len(rewards)
    drawn = np.random.default_rng(0).integers(size, size=(GROUPS, n))
    off = np.zeros((GROUPS, size))
    weights = advantages(rewards[drawn], method, k)
    np.add.at(off, (np.arange(GROUPS)[:, None], drawn), weights)
    off -= max_gradient(rewards, np.full(size, 1 / size), np.eye(size), k)
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
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    model = AutoModelForCausalLM.from_pretrained(settings["model"]).float().eval()
    found = [
        (rewards, gram(model, tokenizer, prompt, texts))
        for prompt, texts, rewards in pools(evaluation, prompts)
    ]
    means = [rewards.mean() for rewards, _ in found]
    passed = [(rewards >= 1).mean() for rewards, _ in found]
    print(f"{settings['model']}: {len(found)} prompts, mean reward {min(means):.2f} to", end=" ")
    print(f"{max(means):.2f}, passed {min(passed):.2f} to {max(passed):.2f}")
    print(f"{'rewards':<8} {'n, k':<7}", *(f"{name:>12}" for name in COMPARED[1:]))
    for name in ("stored", "0/1"):
        for n, k in SIZES:
            totals = np.zeros(len(COMPARED))
            for rewards, products in found:
                used = rewards if name == "stored" else (rewards >= 1).astype(float)
                totals += [error(method, used, products, n, k) for method in COMPARED]
            cells = (f"{x:>12.2f}" for x in totals[1:] / totals[0])
            print(f"{name:<8} {f'{n}, {k}':<7}", *cells, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("evaluation", type=Path, nargs="?")
    parser.add_argument("--prompts", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(asked.evaluation or made(Path(folder), asked.prompts), asked.prompts)


if __name__ == "__main__":
    main()
