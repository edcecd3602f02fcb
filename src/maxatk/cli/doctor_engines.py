"""Every engine that is installed, tried on the built-in model: `maxatk doctor --engines`."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.problems import load_problems
from maxatk.records import Problem, Sample
from maxatk.sampling import Backend, ModelSettings, Request, SamplingSettings, load_backend

_PACKAGES = {"hf": "torch", "vllm": "vllm"}
_PROBLEMS = 8
_NEW_TOKENS = 16
_MOST_APART = 0.05  # nats a token between the log-probabilities of an engine and of a plain pass
_WARM_START = WarmStart(problems=640, batch_size=32)
_MODEL = MiniSettings(train_problems=1, test_problems=_PROBLEMS, tests=1, warm_start=_WARM_START)


@dataclasses.dataclass(frozen=True)
class TriedEngine:
    """One engine: whether it draws what it should, and what it did or failed with."""

    name: str
    holds: bool
    reason: str


def try_engines() -> Iterator[TriedEngine]:
    """Yield for each installed engine whether it draws what a plain forward pass says."""
    installed = [name for name, package in _PACKAGES.items() if importlib.util.find_spec(package)]
    with TemporaryDirectory() as folder:
        build_mini(folder, _MODEL)
        problems = load_problems(str(Path(folder) / "test.jsonl"))
        model = str(Path(folder) / "base")
        expected = _plain_log_probabilities(model, problems)
        for name in installed:
            yield tried(name, functools.partial(_try_backend, name, model, problems, expected))


def tried(name: str, attempt: Callable[[], tuple[bool, str]]) -> TriedEngine:
    """Return whether an attempt holds and why, with its seconds; one that raises does not hold."""
    started = time.monotonic()
    try:
        holds, reason = attempt()
    except Exception as error:  # whatever an engine and its packages raise is the answer
        lines = str(error).strip().splitlines() or [""]
        holds = False
        reason = f"{type(error).__name__}: {lines[0]}"
    seconds = time.monotonic() - started
    return TriedEngine(name, holds, f"{reason} ({seconds:.0f} s)")


def _try_backend(
    name: str, model: str, problems: Sequence[Problem], expected: Sequence[float]
) -> tuple[bool, str]:
    """Return whether an engine draws what it should, and a line that says what it did."""
    backend = load_backend(model, ModelSettings(name, batch_size=_PROBLEMS))
    # At temperature 0 the tokens are known, so their log-probabilities tell the numerics apart.
    greedy = SamplingSettings(samples=1, max_new_tokens=_NEW_TOKENS, temperature=0.0)
    requests = [Request(problem.id, problem.prompt, [0]) for problem in problems]
    means = [
        math.nan if sample.logprob is None else sample.logprob / (sample.tokens or 1)
        for sample in _drawn(backend, requests, greedy)
    ]
    gap = float(np.abs(np.subtract(means, expected)).max())
    # At temperature 1 samples of one prompt must differ.
    free = SamplingSettings(samples=8, max_new_tokens=_NEW_TOKENS)
    first = Request(problems[0].id, problems[0].prompt, range(8))
    texts = {sample.completion for sample in _drawn(backend, [first], free)}
    description = backend.describe()
    where = f"{description['dtype']} on {description.get('gpu', description['device'])}"
    return gap <= _MOST_APART, (
        f"{len(texts)} different texts of 8 samples; log-probabilities within {gap:.1g} nats a "
        f"token of a forward pass; {where}"
    )


def _drawn(
    backend: Backend, requests: Sequence[Request], settings: SamplingSettings
) -> list[Sample]:
    backend.prepare({request.problem_id: request.prompt for request in requests}, settings)
    return [sample for batch in backend.sample(requests, settings) for sample in batch]


def _plain_log_probabilities(model: str, problems: Sequence[Problem]) -> list[float]:
    """Return nats a token of the most probable completion of every problem, without a cache."""
    import torch
    from transformers import AutoModelForCausalLM

    from maxatk.models import load_tokenizer, prompt_ids

    tokenizer = load_tokenizer(model)
    loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype="float32").eval()
    means = []
    for problem in problems:
        ids = torch.tensor([prompt_ids(tokenizer, problem.prompt)])
        generated = loaded.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=_NEW_TOKENS,
            do_sample=False,
            use_cache=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        log_probabilities = torch.log_softmax(torch.cat(generated.logits), -1)
        means.append(float(log_probabilities.amax(-1).mean()))
    return means
