"""How completions are sampled and models run: frozen records, validated when they are made."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from maxatk.check import is_finite, is_number, one_of, require, whole
from maxatk.models import PromptSettings
from maxatk.python_numbers import use_python_numbers
from maxatk.settings import masked_url


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """The sampling distribution and the number of samples; the defaults are the paper's.

    It is cut by `min_p`, then by `top_k`, then by `top_p`, and renormalized each time.

    Args:
        temperature: Divides the logits; 0 takes the most probable token.
        top_p: The smallest set of tokens with this probability is kept, from above 0 to 1 (no cut).
        top_k: So many of the most probable tokens are kept; 0 keeps all.
        min_p: Tokens with at least this share of the largest probability are kept, from 0 to 1.
        max_new_tokens: The most tokens of a completion.
        stop: Texts, and special tokens such as <|im_end|>; a completion ends before the first.
        stop_at_fence: A completion ends after the line that closes its first fenced block.
        seed: Fixes every draw, from 0.
        samples: Completions drawn for every problem.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 256
    stop: tuple[str, ...] = ()
    stop_at_fence: bool = False
    seed: int = 0
    samples: int = 256

    def __post_init__(self) -> None:
        use_python_numbers(self)
        where = "SamplingSettings"
        for name in ("temperature", "top_p", "min_p"):
            value = getattr(self, name)
            require(is_number(value), f"{where}.{name}", "a number", value)
        is_possible = 0 <= self.temperature < math.inf
        require(is_possible, f"{where}.temperature", "0 or more", self.temperature)
        require(0 < self.top_p <= 1, f"{where}.top_p", "in (0, 1]", self.top_p)
        require(0 <= self.min_p < 1, f"{where}.min_p", "in [0, 1)", self.min_p)
        for name, least in {"max_new_tokens": 1, "samples": 1, "seed": 0, "top_k": 0}.items():
            whole(f"{where}.{name}", getattr(self, name), least)
        # A text by itself would be taken for its characters.
        are_texts = isinstance(self.stop, (list, tuple)) and all(
            isinstance(text, str) and text for text in self.stop
        )
        require(are_texts, f"{where}.stop", "texts that are not empty", self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return {**dataclasses.asdict(self), "stop": list(self.stop)}


@dataclasses.dataclass(frozen=True)
class Request:
    """The samples to draw of one problem: those with these indices, in this order."""

    problem_id: str
    prompt: str
    indices: Sequence[int]


@dataclasses.dataclass(frozen=True)
class BackendRow:
    """One backend."""

    path: str  # of its class, as module:class; nothing is imported before a model is opened
    install: str = "pip install 'maxatk[eval]'"
    has_files: bool = True  # it opens the files of a model, from a folder or the hub
    lacks: tuple[str, ...] = ()  # settings that it has no use for


_OF_FILES = ("adapter", "revision", "dtype")
_OF_TORCH = ("device", "attn_implementation", "device_map")

BACKENDS: dict[str, BackendRow] = {
    "hf": BackendRow("maxatk.sampling.hf:HFBackend", lacks=("server", "engine")),
    "openai": BackendRow(
        "maxatk.sampling.openai:OpenAIBackend",
        has_files=False,
        lacks=(*_OF_FILES, *_OF_TORCH, "engine"),
    ),
    "vllm": BackendRow(
        "maxatk.sampling.vllm:VLLMBackend",
        install="pip install 'maxatk[vllm]'",
        lacks=(*_OF_TORCH, "server"),
    ),
}

if TYPE_CHECKING:
    BackendName: TypeAlias = str
else:  # what recipes and the command line check a name against
    _NAMES = ("auto", *BACKENDS)
    BackendName = Literal[_NAMES]


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """How an OpenAI-compatible server is asked.

    Args:
        url: The base of its API, such as http://localhost:8000/v1.
        chat: A prompt goes to /chat/completions as a user turn; else to /completions as it is.
        concurrency: The most requests under way at a time, each for one sample.
        retries: How often a request that may succeed later is repeated (after 429, 5xx but 501, a
            time-out or a lost connection).
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
        use_python_numbers(self)
        whole("ServerSettings.concurrency", self.concurrency, 1)
        whole("ServerSettings.retries", self.retries, 0)
        for name in ("timeout_s", "backoff_s"):
            value = getattr(self, name)
            require(is_finite(value) and value > 0, f"ServerSettings.{name}", "positive", value)
        if self.url is not None:
            is_web = str(self.url).startswith(("http://", "https://"))
            allowed = "an address of http:// or https://"
            require(is_web, "ServerSettings.url", allowed, masked_url(str(self.url)))


Dtype: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """How a model is run; a backend that has no use for a setting refuses it.

    Args:
        backend: hf runs the model here, vllm does with its own engine, openai asks a server; auto
            takes vllm on a GPU where it is installed, else hf.
        dtype: Of the weights; auto takes that of the model's files, or another that this machine
            is faster in: bfloat16 for larger float32 models, float32 on a CPU without
            instructions for the 16 bits of the files (hf, vllm).
        device: Where the model runs; a GPU if there is one.
        batch_size: Samples drawn at once; chosen by the backend if not given.
        server: The server of the backend openai.
        prompt: How a problem's prompt becomes what the model reads.
        adapter: A folder with a LoRA adapter of the model (hf, vllm).
        revision: A branch, tag or commit of a model on the hub (hf, vllm).
        attn_implementation: The attention of transformers that evaluates prompts (hf).
        device_map: How the weights are spread over devices, such as auto (hf).
        engine: More arguments of vLLM's engine, such as engine.max_model_len=4096 (vllm).

    Raises InvalidValueError for a batch size that is no integer from 1, an unknown backend or dtype
    and for settings of another kind.
    """

    backend: BackendName = "hf"
    dtype: Dtype = "auto"
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
        use_python_numbers(self, "batch_size", "engine")
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, 1)
        one_of("backend", self.backend, ("auto", *BACKENDS))
        one_of("dtype", self.dtype, get_args(Dtype))
        require(isinstance(self.server, ServerSettings), "server", "ServerSettings", self.server)
        require(isinstance(self.prompt, PromptSettings), "prompt", "PromptSettings", self.prompt)
        require(isinstance(self.engine, Mapping), "engine", "a mapping", self.engine)

    def given(self, names: Sequence[str]) -> list[str]:
        """Return those of these settings that were given: that are not the defaults."""
        defaults = ModelSettings()
        return [name for name in names if getattr(self, name) != getattr(defaults, name)]


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """Return the seed of one sample, from 0 to 2^31 - 1."""
    digest = hashlib.sha256(f"{seed}\0{problem_id}\0{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
