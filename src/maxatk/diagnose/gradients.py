"""What gradients on stored samples say: whether two objectives agree, and how noisy methods are.

The completions of a problem are an exact policy of M arms with equal chances: the score of an arm
is the gradient of its log-probability, less the mean over the arms. D parameters, P problems.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import needing, require, whole
from maxatk.diagnose.prospects import METHODS_COMPARED, Rows, in_bands, used
from maxatk.errors import DataError
from maxatk.evaluation.folder import MANIFEST, PROMPTS, SAMPLES, SCORES
from maxatk.folders import read_json
from maxatk.jsonl import read_jsonl
from maxatk.models import PromptSettings, load_tokenizer, prompt_ids
from maxatk.objectives import advantages
from maxatk.settings import from_mapping
from maxatk.statistics.intervals import FloatArray

_GROUPS = 500  # drawn of a problem, for each method
_MOST_SAMPLES = 64  # of a problem: each costs a backward pass
_WHOLE_MODEL = 5_000_000  # parameters; of a larger model low-rank adapters are looked at
_RANK = 4


@dataclasses.dataclass(frozen=True)
class Pool:
    """A problem whose rewards differ: the ids of its prompt, and completions with rewards (M,)."""

    prompt: list[int]
    completions: list[str]
    rewards: FloatArray


def gradient_tables(
    folder: str | Path,
    *,
    n: int,
    k: int,
    prompts: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Rows]:
    """Return tables of gradients on the first `prompts` problems of a run whose rewards differ.

    - "agreement": by how often problems are `solved`, and for "all": the `cosine` between the
      gradients of max@1 and max@k, and the share of the problems that `interfere`: a step for the
      max@1 of one of them lowers that of the other problems together (2602.21189).
    - "noise": of each method the `groups` of n samples at which the mean gradient of a step has as
      much signal as noise: the sum of the variances over the squared length of the mean
      (`B_simple` of 1812.06162). None where so few problems do not show a mean.

    A model of more than 5 million parameters has those of low-rank adapters. At most 64 samples of
    a problem count. `progress` is called with (done, total) problems.

    Raises MissingFileError without the run's files, InvalidValueError for numbers, DataError for
    samples of a file or a server or fewer than two problems, MissingDependencyError without peft.
    """
    whole("n", n, 2)
    whole("prompts", prompts, 2)
    require(2 <= k <= n, "k", f"from 2 to n ({n}) with gradients", k)
    settings = read_json(Path(folder) / MANIFEST)["settings"].get("model", {})
    if settings.get("name") not in ("hf", "vllm"):
        raise DataError(f"{folder}: gradients need a run that a local model sampled")
    prompt = from_mapping(PromptSettings, settings.get("prompt", {}), where="prompt")
    tokenizer = load_tokenizer(settings["model"], prompt=prompt)
    encode = functools.partial(prompt_ids, tokenizer, settings=prompt)
    found = pools(folder, encode, problems=prompts, samples=_MOST_SAMPLES)
    if len(found) < 2:
        raise DataError(f"{folder}: has {len(found)} problems whose rewards differ; needs 2")
    model, parameters = _opened(settings["model"])
    aims, drawn, squares = [], [], []
    for done, pool in enumerate(found):
        rewards, scores = pool.rewards, scores_of(model, parameters, tokenizer, pool)
        aims.append([max_gradient(rewards, None, scores, of) for of in (1, k)])
        weights = [group_weights(rewards, m, n, k, groups=_GROUPS) for m in METHODS_COMPARED]
        drawn.append([each.mean(axis=0) @ scores for each in weights])
        gram = scores @ scores.T
        squares.append([float(np.mean(np.sum((each @ gram) * each, axis=1))) for each in weights])
        if progress is not None:
            progress(done + 1, len(found))
    solved = np.array([(pool.rewards >= 1).mean() for pool in found])
    return {
        "agreement": list(_agreement(np.array(aims), solved)),
        "noise": list(_noise(np.array(drawn), np.array(squares), n, k)),
    }


def max_gradient(
    rewards: FloatArray, chances: FloatArray | None, scores: FloatArray, k: int
) -> FloatArray:
    """Return the gradient (D,) of max@k: k sum_y pi(y) E[max(r(y), k - 1 fresh)] grad log pi(y).

    rewards: (M,) of the arms; chances: (M,), or None where they are equal; scores: (M, D) their
    grad log pi. Source: section 3.1 of the paper, in the form of one sample against k - 1 others.
    """
    chances = np.full(len(rewards), 1 / len(rewards)) if chances is None else chances
    values, place = np.unique(rewards, return_inverse=True)
    below = np.cumsum(np.bincount(place, chances)) ** (k - 1)
    mass = np.diff(np.concatenate([[0.0], below])) if k > 1 else np.zeros(len(values))
    above = np.cumsum((values * mass)[::-1])[::-1]
    expected = values * below + np.append(above[1:], 0.0)
    gradient: FloatArray = k * (chances * expected[place]) @ scores
    return gradient


def group_weights(rewards: FloatArray, method: str, n: int, k: int, *, groups: int) -> FloatArray:
    """Return the advantages that random groups of n give to arms of rewards (M,): (groups, M)."""
    drawn = np.random.default_rng(0).integers(len(rewards), size=(groups, n))
    weights = np.zeros((groups, len(rewards)))
    np.add.at(weights, (np.arange(groups)[:, None], drawn), advantages(rewards[drawn], method, k))
    return weights


def scores_of(model: Any, parameters: Sequence[Any], tokenizer: Any, pool: Pool) -> FloatArray:
    """Return the centred scores (M, D) of a pool's completions, with their end token."""
    import torch

    size = sum(parameter.numel() for parameter in parameters)
    scores = np.empty((len(pool.completions), size), dtype=np.float32)
    for row, text in zip(scores, pool.completions, strict=True):
        tail = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        ids = torch.tensor([[*pool.prompt, *tail]])
        log_p = model(input_ids=ids[:, :-1]).logits[0, len(pool.prompt) - 1 :].log_softmax(-1)
        chosen = log_p.gather(1, ids[0, len(pool.prompt) :, None]).sum()
        gradients = torch.autograd.grad(chosen, parameters)
        row[:] = torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy()
    scores -= scores.mean(axis=0)
    return scores


def pools(
    folder: str | Path, encode: Callable[[str], list[int]], *, problems: int, samples: int
) -> list[Pool]:
    """Return the first `problems` whose rewards differ, with the first `samples` that ended."""
    scored = read_jsonl(Path(folder) / SCORES, dict)
    reward = {(row["problem_id"], row["sample"]): row["reward"] for row in scored}
    kept: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in read_jsonl(Path(folder) / SAMPLES, dict):
        value, own = reward.get((row["problem_id"], row["sample"])), kept[row["problem_id"]]
        if row["finish_reason"] == "stop" and value is not None and len(own) < samples:
            own.append((row["completion"], value))
    found: list[Pool] = []
    for row in read_jsonl(Path(folder) / PROMPTS, dict):
        pairs = kept[row["problem_id"]]
        if len({value for _, value in pairs}) > 1 and len(found) < problems:
            texts, rewards = zip(*pairs, strict=True)
            found.append(Pool(encode(row["prompt"]), list(texts), np.array(rewards)))
    return found


def _opened(name: str) -> tuple[Any, list[Any]]:
    """Return a model in float32, and its parameters, or those of adapters of a larger one."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
    if sum(parameter.numel() for parameter in model.parameters()) <= _WHOLE_MODEL:
        return model, list(model.parameters())
    with needing("peft: a larger model has gradients of adapters: pip install 'maxatk[peft]'"):
        from peft import LoraConfig, get_peft_model
    with torch.random.fork_rng():
        torch.manual_seed(0)
        adapted = get_peft_model(model, LoraConfig(r=_RANK, target_modules="all-linear"))
    # At the start B is 0, so that only its gradient is not: that of the weights, projected by A.
    return adapted, [p for name, p in adapted.named_parameters() if "lora_B" in name]


def _agreement(aims: FloatArray, solved: FloatArray) -> Iterator[dict[str, Any]]:
    """Yield the rows of "agreement" of gradients (P, 2, D) of max@1 and max@k."""
    products = aims[:, 0] @ aims[:, 0].T
    against = products.sum(axis=1) - np.diag(products) < 0
    for name, here in {"all": np.full(len(solved), True), **in_bands(solved)}.items():
        if here.any():
            one, best = aims[here].sum(axis=0)
            length = float(np.linalg.norm(one) * np.linalg.norm(best))
            yield {
                "solved": name,
                "problems": int(here.sum()),
                "cosine": float(one @ best) / length if length else None,
                "interfere": float(against[here].mean()),
            }


def _noise(means: FloatArray, squares: FloatArray, n: int, k: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of "noise" of means (P, methods, D) and mean squares (P, methods)."""
    count = len(means)
    for place, method in enumerate(METHODS_COMPARED):
        own = means[:, place]
        total = float(np.sum(own.sum(axis=0) ** 2))
        signal = (total - float(np.sum(own**2))) / (count * (count - 1))  # of two other problems
        groups = float(squares[:, place].mean()) / signal - 1 if signal > 0 else None
        yield {**used(method, n, k), "groups": groups}
