"""The command `mini`: the built-in model and its problems, without training for best-of-N."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.mini import MiniSettings, build_mini


def command(
    out: Annotated[Path, tyro.conf.Positional],
    /,
    settings: Annotated[MiniSettings, tyro.conf.arg(name="")] = MiniSettings(),  # noqa: B008
    progress: ProgressMode = "auto",
) -> None:
    """Make problems (train.jsonl, test.jsonl) and the warm-started model (base) in a folder.

    Example: maxatk mini runs/mini --test-problems 96

    Args:
        out: The folder; what it already holds for the same settings is left alone.
        settings: Sizes and seed.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    with progress_bar("warm start", progress) as report:
        build_mini(out, dataclasses.replace(settings), progress=report)
    print(f"model: {out / 'base'}")  # noqa: T201
