import importlib.util
import sys
import types

import pytest

from maxatk.errors import MissingDependencyError
from maxatk.evaluation import ModelSettings, SamplingSettings, load_backend


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_without_vllm_the_error_says_what_to_install():
    with pytest.raises(MissingDependencyError, match=r"needs the package 'vllm': pip install vllm"):
        load_backend("some/model", ModelSettings(backend="vllm"))


class Engine:
    """As much of `vllm.LLM` as its documentation promises and the backend uses."""

    template = None

    def __init__(self, *, model, dtype, generation_config):
        assert (model, dtype, generation_config) == ("some/model", "bfloat16", "vllm")

    def get_tokenizer(self):
        return types.SimpleNamespace(chat_template=self.template)

    def generate(self, prompts, sampling_params, *, use_tqdm):
        assert len(prompts) == len(sampling_params)
        return [
            self.output(f"{p}:{s.seed}", s) for p, s in zip(prompts, sampling_params, strict=True)
        ]

    def chat(self, messages, sampling_params, *, use_tqdm):
        texts = [f"<{turns[0]['content']}>" for turns in messages]
        return self.generate(texts, sampling_params, use_tqdm=use_tqdm)

    def output(self, text, sampling):
        found = types.SimpleNamespace(
            text=text,
            token_ids=[1, 2, 3],
            finish_reason="length" if sampling.max_tokens == 3 else "stop",
            cumulative_logprob=-1.25 if sampling.logprobs is not None else None,
        )
        return types.SimpleNamespace(outputs=[found])


class SamplingParams:
    def __init__(self, *, n, temperature, top_p, max_tokens, seed, logprobs):
        assert (n, top_p) == (1, 0.9)
        self.max_tokens, self.seed, self.logprobs = max_tokens, seed, logprobs


@pytest.fixture
def backend(monkeypatch):
    stand_in = types.ModuleType("vllm")
    stand_in.LLM, stand_in.SamplingParams = Engine, SamplingParams
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    monkeypatch.delitem(sys.modules, "maxatk.evaluation.backends.vllm", raising=False)
    yield load_backend("some/model", ModelSettings(backend="vllm", dtype="bfloat16"))
    sys.modules.pop("maxatk.evaluation.backends.vllm", None)


def settings(**changes):
    return SamplingSettings(**{"samples": 4, "max_new_tokens": 3, "top_p": 0.9, **changes})


def test_samples_have_their_own_seeds_and_come_in_order(backend):
    first = backend.sample("p", "text", [2, 0], settings())
    assert [s.sample for s in first] == [2, 0]
    assert first[1] == backend.sample("p", "text", [0], settings())[0]
    assert first[0].completion != first[1].completion
    assert (first[0].tokens, first[0].finish_reason, first[0].logprob) == (3, "length", -1.25)
    assert backend.sample("p", "text", [0], settings(temperature=0.5))[0].logprob is None


def test_a_chat_template_is_used_where_there_is_one(backend, monkeypatch):
    assert backend.sample("p", "text", [0], settings())[0].completion.startswith("text:")
    monkeypatch.setattr(Engine, "template", "a template")
    assert backend.sample("p", "text", [0], settings())[0].completion.startswith("<text>:")
