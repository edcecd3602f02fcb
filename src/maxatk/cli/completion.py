"""The command `completion`: a script that completes commands, flags and their values."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Annotated, Literal

import tyro

from maxatk.cli.flags import one_of
from maxatk.cli.main import COMMANDS, entry

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
    whole = one_of({name: entry(name) for name in COMMANDS}, texts=COMMANDS)
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.suppress(SystemExit):
        tyro.cli(whole, prog="maxatk", args=["--tyro-print-completion", shell])
    # A help text of several lines would be completed as if its later lines were words.
    script = _SPECIFICATION.sub(lambda line: line[0].replace(r"\n", " "), written.getvalue())
    print(script + (_WITH_FILES if shell == "bash" else ""), end="")
