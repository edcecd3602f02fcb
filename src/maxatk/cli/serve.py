"""The command `serve`: the verifier for other processes and machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import tyro

from maxatk.serve.settings import ServeSettings


@dataclasses.dataclass(frozen=True)
class Command:
    """Verify programs for other processes and machines, over HTTP, until Ctrl-C.

    POST /verify takes programs with their tests; POST /run_code is that of SandboxFusion, for the
    clients of verl and others. `sandbox: http://host:8080` in the section `verifier` of a recipe
    sends the programs of a training or an evaluation here.

    Example: maxatk serve

    Example: MAXATK_TOKEN=$(cat token) maxatk serve --host 0.0.0.0 --verifier.workers 64
    """

    settings: Annotated[ServeSettings, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=ServeSettings
    )

    def run(self, _: Sequence[str]) -> None:
        """Serve."""
        from maxatk.serve.server import serve

        serve(self.settings, ready=lambda url: print(f"serving, until Ctrl-C: {url}", flush=True))
