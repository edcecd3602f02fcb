"""The command `view`: a local page about trainings and evaluations that run or have ended."""

from __future__ import annotations

from typing import Annotated

import tyro

from maxatk.cli.flags import named_paths


def command(folders: Annotated[tuple[str, ...], tyro.conf.Positional], /, port: int = 0) -> None:
    """Look into a training, an evaluation or a study, on a page of this machine.

    The page has the figures of the report, the groups of every step of a training, the problems of
    an evaluation, and the completions of a prompt side by side with their rewards, advantages and
    failed tests, those of two models too. It reads files alone and grows with them. Ctrl-C ends it.

    Example: maxatk view runs/k4

    Args:
        folders: Folders of trainings, evaluations or studies; name=folder gives one a name.
        port: The port on 127.0.0.1; 0 takes a free one.
    """
    from maxatk.view.runs import runs_in
    from maxatk.view.server import View

    with View(runs_in(named_paths(folders)), port=port) as server:
        print(f"the page, until Ctrl-C: {server.address}", flush=True)
        server.serve_forever()
