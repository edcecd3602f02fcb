"""The recipe of the command `eval`: the one description of an evaluation run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import tyro

from maxatk.evaluation import SamplingSettings, ServerSettings
from maxatk.settings import from_mapping
from maxatk.verifier.settings import VerifierSettings

_HINT = "(required, here or in the recipe)"
_Required = Annotated[str, tyro.conf.arg(help_behavior_hint=_HINT)]


@dataclasses.dataclass(frozen=True)
class EvalRecipe:
    """What `maxatk eval` needs: the keys of its recipe, and its flags.

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for samples.jsonl, scores.jsonl and results.json.
        backend: hf runs the model here, vllm does with its own engine, openai asks a server.
        server: The server of the backend openai.
        limit: Take only the first problems.
        batch_size: Samples drawn at once; chosen by itself if not given.
        device: Where the model runs; a GPU if there is one.
        dtype: Of the weights; auto takes that of the model's files.
        sampling: How completions are sampled.
        verifier: Its workers and limits.
    """

    model: _Required
    problems: _Required
    out: _Required
    backend: Literal["hf", "openai", "vllm"] = "hf"
    server: ServerSettings = dataclasses.field(default_factory=ServerSettings)
    limit: int | None = None
    batch_size: int | None = None
    device: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    sampling: Annotated[SamplingSettings, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=SamplingSettings
    )
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)

    @property
    def asked_server(self) -> ServerSettings | None:
        """Return the server settings for the backend: None for one that was told nothing."""
        return server_for(self.backend, self.server)


UNNAMED = EvalRecipe(model="", problems="", out="")
"""What the flags are laid over before the recipe file is known."""


def flag_defaults(settings: Mapping[str, Any]) -> EvalRecipe:
    """Return the recipe whose values are the defaults of the flags, from a recipe file's mapping.

    A required key that the file leaves out is a flag that has to be given.

    Raises InvalidValueError naming the key, the value and what is allowed.
    """
    required = ("model", "problems", "out")
    missing = {name: tyro.MISSING for name in required if name not in settings}
    found = from_mapping(EvalRecipe, {**settings, **dict.fromkeys(missing, "")}, where="recipe")
    return dataclasses.replace(found, **missing)


def server_for(backend: str, server: ServerSettings) -> ServerSettings | None:
    """Return the server settings that a backend is given: None for one that was told nothing."""
    return server if backend == "openai" or server != ServerSettings() else None
