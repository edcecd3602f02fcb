"""The recipe of the command `eval`: the one description of an evaluation run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from maxatk.evaluation import ModelSettings, SamplingSettings, ServerSettings
from maxatk.models import PromptSettings
from maxatk.rewards import read_spec
from maxatk.verifier import VerifierSettings


@dataclasses.dataclass(frozen=True)
class EvalRecipe:
    """What `maxatk eval` needs: the keys of its recipe.

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for samples.jsonl, scores.jsonl and results.json.
        backend: hf runs the model here, vllm does with its own engine, openai asks a server.
        server: The server of the backend openai.
        limit: Take only the first problems.
        batch_size: Samples drawn at once; chosen by itself if not given.
        device: Where the model runs; a GPU if there is one.
        dtype: Of the weights; auto takes that of the model's files, or bfloat16 for larger float32
            models on a CPU that is faster in it (hf).
        prompt: How a problem's prompt becomes what the model reads.
        adapter: A folder with a LoRA adapter of the model (hf, vllm).
        revision: A branch, tag or commit of a model on the hub (hf, vllm).
        attn_implementation: The attention of transformers that evaluates prompts (hf).
        device_map: How the weights are spread over devices, such as auto (hf).
        engine: More arguments of vLLM's engine, such as engine.max_model_len=4096 (vllm).
        reward: continuous (the share of tests that passed), binary, answer, module:function,
            file.py:function, {model: name}, or a list of such with weights.
        threshold: The reward from which a sample passes.
        sampling: How completions are sampled.
        verifier: Its workers and limits.
    """

    model: str
    problems: str
    out: str
    backend: Literal["hf", "openai", "vllm"] = "hf"
    server: ServerSettings = dataclasses.field(default_factory=ServerSettings)
    limit: int | None = None
    batch_size: int | None = None
    device: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    prompt: PromptSettings = dataclasses.field(default_factory=PromptSettings)
    adapter: str | None = None
    revision: str | None = None
    attn_implementation: str | None = None
    device_map: str | None = None
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reward: Any = "continuous"
    threshold: float = 1.0
    sampling: SamplingSettings = dataclasses.field(default_factory=SamplingSettings)
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)

    def __post_init__(self) -> None:
        _ = self.model_settings  # refuses a batch size below 1
        read_spec(self.reward)

    @property
    def model_settings(self) -> ModelSettings:
        """Return how the model is run."""
        return ModelSettings(
            backend=self.backend,
            dtype=self.dtype,
            device=self.device,
            batch_size=self.batch_size,
            server=self.server,
            prompt=self.prompt,
            adapter=self.adapter,
            revision=self.revision,
            attn_implementation=self.attn_implementation,
            device_map=self.device_map,
            engine=self.engine,
        )
