"""The sampling backends: where the class of each is, and what it needs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, TypeAlias


@dataclasses.dataclass(frozen=True)
class BackendRow:
    """One backend.

    Args:
        path: Its class, as module:class; nothing is imported before a model is opened.
        install: The command that installs its packages.
        has_files: It opens the files of a model, from a folder or the hub.
    """

    path: str
    install: str = "pip install 'maxatk[eval]'"
    has_files: bool = True


BACKENDS: dict[str, BackendRow] = {
    "hf": BackendRow("maxatk.evaluation.backends.hf:HFBackend"),
    "openai": BackendRow("maxatk.evaluation.backends.openai:OpenAIBackend", has_files=False),
    "vllm": BackendRow(
        "maxatk.evaluation.backends.vllm:VLLMBackend", install="pip install 'maxatk[vllm]'"
    ),
}

if TYPE_CHECKING:
    BackendName: TypeAlias = str
else:  # what recipes and the command line check a name against
    BackendName = Literal[tuple(BACKENDS)]
