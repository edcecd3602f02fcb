"""The page of commands is what the commands say of themselves when the site is built."""

import contextlib
import functools
import io
import os
from typing import Any

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put a section for every command where the page has the mark."""
    return markdown.replace(MARK, _sections()) if MARK in markdown else markdown


@functools.cache
def _sections() -> str:
    from maxatk.cli.commands import COMMANDS

    calls: list[tuple[str, ...]] = []
    for command, row in COMMANDS.items():
        calls.append((command,))
        calls += [(command, name) for name in row.inner]
    return "\n".join(_section(call, help_of(*call)) for call in calls)


def _section(call: tuple[str, ...], text: str) -> str:
    return f"{'#' * (1 + len(call))} maxatk {' '.join(call)}\n\n```text\n{text}\n```\n"


@functools.cache
def help_of(*command: str) -> str:
    """Return what `maxatk COMMAND --help` prints, without the frames of a terminal."""
    from maxatk.cli.main import main

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as a terminal: frames, not ASCII
    environment = dict(os.environ)
    os.environ.update(COLUMNS="78", NO_COLOR="1")
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        os.environ.clear()
        os.environ.update(environment)
    printed.seek(0)
    return "\n".join(map(_unframed, printed.read().strip().splitlines())).rstrip()


def _unframed(line: str) -> str:
    if line.startswith("╭"):
        return f"\n{line.strip('╭╮─ ')}:"
    if line.startswith("╰"):
        return ""
    return f"  {line[1:-1].rstrip()}" if line.startswith("│") else line.rstrip()
