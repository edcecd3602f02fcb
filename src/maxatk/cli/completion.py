"""The command `completion`: a script that completes commands, flags and their values."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

import tyro

from maxatk.cli.main import COMMANDS, Entry, entry

_SPECIFICATION = re.compile("^COMPLETION_SPEC = .*$", re.MULTILINE)
# tyro's own line completes no file names, which most arguments of ours are.
_WITH_FILES = "complete -o default -F _tyro_maxatk maxatk\n"


def command(shell: Annotated[Literal["bash", "zsh"], tyro.conf.Positional], /) -> None:
    """Print a script that completes the commands, their flags and the values of those.

    Example: maxatk completion bash > ~/.local/share/bash-completion/completions/maxatk

    Example: maxatk completion zsh > ~/.zfunc/_maxatk

    Args:
        shell: The shell that reads it; the folder of the file must be among those it looks in.
    """
    parsers = {name: _parser(entry(name), name) for name in COMMANDS}
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.suppress(SystemExit):
        tyro.cli(_one_of(parsers), prog="maxatk", args=["--tyro-print-completion", shell])
    # A help text of several lines would be completed as if its later lines were words.
    script = _SPECIFICATION.sub(lambda line: line[0].replace(r"\n", " "), written.getvalue())
    print(script + (_WITH_FILES if shell == "bash" else ""), end="")


def _parser(found: Entry, name: str) -> Any:
    """Return what tyro makes the parser of a command from."""
    if not found.subcommands:
        return found.flags

    def group(action: Any) -> Any:
        return action

    annotated: Any = Annotated  # of a type that is only known here
    action = annotated[_one_of(found.subcommands), tyro.conf.arg(name="")]
    group.__annotations__ = {"action": action}
    group.__doc__ = COMMANDS[name]
    return group


def _one_of(parsers: Mapping[str, Any]) -> Any:
    """Return the type of which a command line gives one, by its name."""
    named = [
        Annotated[Any, tyro.conf.subcommand(name=name, constructor=parser, prefix_name=False)]
        for name, parser in parsers.items()
    ]
    union: Any = Union
    return union[tuple(named)]  # whose members are only known here
