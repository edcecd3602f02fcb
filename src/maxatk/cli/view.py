"""The command `view`: a local page about a training that runs or has ended."""

from __future__ import annotations

from typing import Annotated

import tyro

from maxatk.cli.flags import named_paths
from maxatk.errors import InvalidValueError


def command(folders: Annotated[tuple[str, ...], tyro.conf.Positional], /, port: int = 0) -> None:
    """Look into the groups of a training that runs or has ended, on a page of this machine.

    The page has what was logged, the prompts of every step, and the completions of a prompt side
    by side with their rewards, advantages and failed tests. It reads groups.jsonl alone. Two
    trainings are shown together. Ctrl-C ends it.

    Example: maxatk view runs/k4

    Args:
        folders: One folder of a training, or two; name=folder gives it a name.
        port: The port on 127.0.0.1; 0 takes a free one.
    """
    from maxatk.report.training import Training
    from maxatk.report.view import View

    named = named_paths(folders)
    if len(named) > 2:
        raise InvalidValueError(f"folders: must be one or two, got {len(named)}")
    trainings = {name: Training(folder) for name, folder in named.items()}
    with View(trainings, port=port) as server:
        print(f"the page, until Ctrl-C: {server.address}", flush=True)
        server.serve_forever()
