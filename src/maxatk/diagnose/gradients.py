"""What gradients on stored samples say: whether two objectives agree, and how noisy methods are.

The completions of a problem are an exact policy of M arms with equal chances: the score of an arm
is the gradient of its log-probability, less the mean over the arms. D parameters, P problems.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import needing, require, whole
from maxatk.diagnose.prospects import METHODS_COMPARED, Rows, in_bands, used
from maxatk.errors import DataError, MissingFileError, counted
from maxatk.evaluation.folder import MANIFEST, PROMPTS, SAMPLES, recorded
from maxatk.evaluation.load import passing_reward, rewarded_scores
from maxatk.folders import read_json
from maxatk.jsonl import read_jsonl
from maxatk.models import PromptSettings, load_tokenizer, prompt_ids
from maxatk.objectives import advantages
from maxatk.objectives.metrics import passes
from maxatk.sampling import ModelSettings
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


@dataclasses.dataclass(frozen=True)
class _Gradients:
    """Of one problem: its gradients, and those that `METHODS_COMPARED` estimate from groups.

    `aims` (2, D) are the gradients of max@1 and max@k. `means` (methods, D) are the means over
    groups, `squares` (methods,) the mean squared lengths of the gradient of a group.
    """

    aims: FloatArray
    means: FloatArray
    squares: FloatArray


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

    Raises MissingFileError without the run's files, its model or its adapter, InvalidValueError for
    numbers, DataError for samples of a file or a server or of a template that a file had, and for
    fewer than two problems, and MissingDependencyError without peft.
    """
    whole("n", n, 2)
    whole("prompts", prompts, 2)
    require(2 <= k <= n, "k", f"from 2 to n ({n}) with gradients", k)
    settings_of_run = read_json(Path(folder) / MANIFEST)["settings"]
    settings = _model_settings(folder, settings_of_run)
    prompt = from_mapping(PromptSettings, settings.get("prompt", {}), where="prompt")
    revision = settings.get("revision")
    tokenizer = load_tokenizer(settings["model"], revision=revision, prompt=prompt)
    encode = functools.partial(prompt_ids, tokenizer, settings=prompt)
    chosen = pools(folder, encode, problems=prompts, samples=_MOST_SAMPLES)
    if len(chosen) < 2:
        raise DataError(f"{folder}: has {counted(len(chosen))} whose rewards differ; needs 2")
    loading = ModelSettings(
        dtype="float32", device="cpu", revision=revision, adapter=settings.get("adapter")
    )
    model, parameters = _opened(settings["model"], loading)
    end = [] if _has_stops(settings_of_run) else [tokenizer.eos_token_id]
    gradients = []
    for done, pool in enumerate(chosen, start=1):
        sample_gradients = log_prob_gradients(model, parameters, tokenizer, pool, end=end)
        gradients.append(_problem_gradients(pool.rewards, sample_gradients, n, k))
        if progress is not None:
            progress(done, len(chosen))
    passes_from = passing_reward(folder)
    solved = np.array([passes(pool.rewards, passes_from).mean() for pool in chosen])
    aims = np.array([problem_gradients.aims for problem_gradients in gradients])
    means = np.array([problem_gradients.means for problem_gradients in gradients])
    squares = np.array([problem_gradients.squares for problem_gradients in gradients])
    return {
        "agreement": list(_agreement(aims, solved)),
        "noise": list(_noise(means, squares, n, k)),
    }


def _has_stops(settings_of_run: Mapping[str, Any]) -> bool:
    """Return whether completions of a run may have ended at a text, and not by the end token."""
    stops = [recorded(settings_of_run, f"sampling.{name}") for name in ("stop", "stop_at_fence")]
    return any(stops)


def _model_settings(folder: str | Path, settings_of_run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the model that sampled a run, if it is a local one that is here."""
    settings: dict[str, Any] = settings_of_run.get("model", {})
    if settings.get("name") not in ("hf", "vllm"):
        raise DataError(f"{folder}: gradients need a run that a local model sampled")
    # Only a model in a folder has the hash of its weights: a path may be relative to another place.
    if settings.get("weights") is not None and not Path(settings["model"]).is_dir():
        raise MissingFileError(
            f"{folder}: was sampled by the model in {settings['model']!r}, which is no folder "
            "here; run this where eval ran"
        )
    if settings.get("prompt", {}).get("template", "auto") not in ("auto", "none"):
        raise DataError(
            f"{folder}: was sampled with the chat template of a file, of which it holds the hash "
            "alone; gradients need a run with that of the tokenizer, or with none"
        )
    return settings


def _problem_gradients(
    rewards: FloatArray, sample_gradients: FloatArray, n: int, k: int
) -> _Gradients:
    """Return the gradients of one problem.

    Its samples have `rewards` (M,), and their log-probabilities the `sample_gradients` (M, D).
    """
    aims = [max_gradient(rewards, None, sample_gradients, best_of) for best_of in (1, k)]
    # |w @ sample_gradients|^2 = w @ gram @ w, without the D columns.
    gram = sample_gradients @ sample_gradients.T
    means = []
    squares = []
    for method in METHODS_COMPARED:
        weights = group_weights(rewards, method, n, k, groups=_GROUPS)
        means.append(weights.mean(axis=0) @ sample_gradients)
        squared_lengths = np.sum((weights @ gram) * weights, axis=1)  # (groups,)
        squares.append(squared_lengths.mean())
    return _Gradients(np.array(aims), np.array(means), np.array(squares))


def max_gradient(
    rewards: FloatArray, chances: FloatArray | None, sample_gradients: FloatArray, k: int
) -> FloatArray:
    """Return the gradient (D,) of max@k: k sum_y pi(y) E[max(r(y), k - 1 fresh)] grad log pi(y).

    rewards: (M,) of the arms; chances: (M,), or None where they are equal; sample_gradients: (M, D)
    their grad log pi. Source: section 3.1 of the paper, in the form of one sample against k - 1
    others.
    """
    if chances is None:
        chances = np.full(len(rewards), 1 / len(rewards))
    values, level = np.unique(rewards, return_inverse=True)
    # The best of the k - 1 fresh samples is at most `values` with the chance `at_most`, and is
    # exactly that with `exactly`; for k = 1 there is no fresh sample.
    at_most = np.cumsum(np.bincount(level, chances)) ** (k - 1)
    exactly = np.diff(np.concatenate([[0.0], at_most])) if k > 1 else np.zeros(len(values))
    from_level_up = np.cumsum((values * exactly)[::-1])[::-1]
    above_level = np.append(from_level_up[1:], 0.0)
    expected = values * at_most + above_level  # E[max(r(y), best of k - 1)] for every level of r
    gradient: FloatArray = k * (chances * expected[level]) @ sample_gradients
    return gradient


def group_weights(rewards: FloatArray, method: str, n: int, k: int, *, groups: int) -> FloatArray:
    """Return the advantages that random groups of n give to arms of rewards (M,): (groups, M)."""
    arms = np.random.default_rng(0).integers(len(rewards), size=(groups, n))
    values = advantages(rewards[arms], method, k)
    weights = np.zeros((groups, len(rewards)))
    # An arm that a group drew several times has the sum: plain indexing would keep the last.
    np.add.at(weights, (np.arange(groups)[:, None], arms), values)
    return weights


def log_prob_gradients(
    model: Any, parameters: Sequence[Any], tokenizer: Any, pool: Pool, *, end: Sequence[int]
) -> FloatArray:
    """Return the centred gradients of the log-probability of a pool's completions: (M, D).

    Each completion has the ids of `end` behind its own. The model never gave the end token to a
    completion that a stop text has ended. A run does not say of each which of the two it was, so
    that with such texts none of them has it.
    """
    import torch

    size = sum(parameter.numel() for parameter in parameters)
    sample_gradients = np.empty((len(pool.completions), size), dtype=np.float32)
    start = len(pool.prompt)
    for row, text in zip(sample_gradients, pool.completions, strict=True):
        completion = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*pool.prompt, *completion, *end]])
        logits = model(input_ids=ids[:, :-1]).logits[0]
        log_p = logits[start - 1 :].log_softmax(-1)  # those at a place are of the token behind it
        log_p_of_completion = log_p.gather(1, ids[0, start:, None]).sum()
        gradients = torch.autograd.grad(log_p_of_completion, parameters)
        row[:] = torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy()
    sample_gradients -= sample_gradients.mean(axis=0)
    return sample_gradients


def pools(
    folder: str | Path, encode: Callable[[str], list[int]], *, problems: int, samples: int
) -> list[Pool]:
    """Return the first `problems` whose rewards differ, with the first `samples` that ended."""
    scores = rewarded_scores(folder)
    completions: dict[str, list[str]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)  # the rewards of these completions
    for row in read_jsonl(Path(folder) / SAMPLES, dict):
        problem_id = row["problem_id"]
        score = scores.get((problem_id, row["sample"]))
        reward = None if score is None else score.reward
        ended = row["finish_reason"] == "stop"
        if ended and reward is not None and len(values[problem_id]) < samples:
            completions[problem_id].append(row["completion"])
            values[problem_id].append(reward)
    chosen: list[Pool] = []
    for row in read_jsonl(Path(folder) / PROMPTS, dict):
        problem_id = row["problem_id"]
        if len(set(values[problem_id])) > 1 and len(chosen) < problems:
            prompt = encode(row["prompt"])
            chosen.append(Pool(prompt, completions[problem_id], np.array(values[problem_id])))
    return chosen


def _opened(name: str, loading: ModelSettings) -> tuple[Any, list[Any]]:
    """Return a model, and its parameters, or those of adapters of a larger one."""
    import torch

    from maxatk.sampling.loading import load_model

    model, _, _ = load_model(name, loading)
    model.requires_grad_(True)  # an adapter that is merged has left the weights without
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
    with_others = products.sum(axis=1) - np.diag(products)
    bands = {"all": np.full(len(solved), True), **in_bands(solved)}
    for name, in_band in bands.items():
        if not in_band.any():
            continue
        for_max_1, for_max_k = aims[in_band].sum(axis=0)
        lengths = float(np.linalg.norm(for_max_1) * np.linalg.norm(for_max_k))
        yield {
            "solved": name,
            "problems": int(in_band.sum()),
            "cosine": float(for_max_1 @ for_max_k) / lengths if lengths else None,
            "interfere": float((with_others[in_band] < 0).mean()),
        }


def _noise(means: FloatArray, squares: FloatArray, n: int, k: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of "noise" of means (P, methods, D) and mean squares (P, methods)."""
    problems = len(means)
    for place, method in enumerate(METHODS_COMPARED):
        of_method = means[:, place]
        # The squared length of the mean gradient, without bias: the mean of the products of two
        # different problems, which is that of all pairs less those of a problem with itself.
        all_pairs = float(np.sum(of_method.sum(axis=0) ** 2))
        same_problem = float(np.sum(of_method**2))
        signal = (all_pairs - same_problem) / (problems * (problems - 1))
        groups = float(squares[:, place].mean()) / signal - 1 if signal > 0 else None
        yield {**used(method, n, k), "groups": groups}
