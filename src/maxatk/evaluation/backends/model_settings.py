"""Where and how a model runs: the backend, and what it is opened with."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends.table import BackendName
from maxatk.masking import masked_url
from maxatk.models import PromptSettings


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """How an OpenAI-compatible server is asked.

    Args:
        url: The base of its API, such as http://localhost:8000/v1.
        chat: A prompt goes to /chat/completions as a user turn; else to /completions as it is.
        concurrency: The most requests under way at a time, each for one sample.
        retries: How often a request that may succeed later is repeated (after 429, 5xx, a time-out
            or a lost connection).
        timeout_s: Seconds that one request may take.
        backoff_s: Seconds before the first repetition; then twice as long each time, up to a
            minute.
        key_variable: The environment variable with the API key, if there is one.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    url: str | None = None
    chat: bool = False
    concurrency: int = 64
    retries: int = 10
    timeout_s: float = 300.0
    backoff_s: float = 0.5
    key_variable: str = "OPENAI_API_KEY"

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidValueError(
                    f"ServerSettings.{name}: must be an integer of {least} or more, got {value!r}"
                )
        for name in ("timeout_s", "backoff_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise InvalidValueError(f"ServerSettings.{name}: must be positive, got {value!r}")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise InvalidValueError(
                f"ServerSettings.url: must start with http:// or https://, got "
                f"{masked_url(self.url)!r}"
            )


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """How a model is run; a backend that has no use for a setting refuses it.

    Args:
        backend: hf runs the model here, vllm does with its own engine, openai asks a server.
        dtype: Of the weights; auto takes that of the model's files, or bfloat16 for larger float32
            models on a CPU that is faster in it (hf).
        device: Where the model runs; a GPU if there is one.
        batch_size: Samples drawn at once; chosen by the backend if not given.
        server: The server of the backend openai.
        prompt: How a problem's prompt becomes what the model reads.
        adapter: A folder with a LoRA adapter of the model (hf, vllm).
        revision: A branch, tag or commit of a model on the hub (hf, vllm).
        attn_implementation: The attention of transformers that evaluates prompts (hf).
        device_map: How the weights are spread over devices, such as auto (hf).
        engine: More arguments of vLLM's engine, such as engine.max_model_len=4096 (vllm).

    Raises InvalidValueError for a batch size below 1 and an engine that is no mapping.
    """

    backend: BackendName = "hf"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device: str | None = None
    batch_size: int | None = None
    server: ServerSettings = dataclasses.field(default_factory=ServerSettings)
    prompt: PromptSettings = dataclasses.field(default_factory=PromptSettings)
    adapter: str | None = None
    revision: str | None = None
    attn_implementation: str | None = None
    device_map: str | None = None
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise InvalidValueError(f"batch_size: must be 1 or more, got {self.batch_size!r}")
        if not isinstance(self.engine, Mapping):
            raise InvalidValueError(f"engine: must be a mapping, got {self.engine!r}")

    def refuse(self, *names: str) -> None:
        """Raise InvalidValueError if one of these settings, which the backend lacks, was given."""
        without = ModelSettings()
        for name in names:
            value: Any = getattr(self, name)
            if value != getattr(without, name):
                raise InvalidValueError(
                    f"{name}: the backend {self.backend!r} has no such setting, got {value!r}"
                )


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """Return the seed of one sample, from 0 to 2^31 - 1."""
    digest = hashlib.sha256(f"{seed}\0{problem_id}\0{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
