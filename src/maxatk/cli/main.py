"""The command `maxatk`: one module a verb, imported only when its verb is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from maxatk.cli.closed_pipe import closed_outputs, until_closed
from maxatk.errors import MaxAtKError, suggestion

VERBS: dict[str, str] = {
    "train": "train a model from a recipe",
    "eval": "sample a model on problems, run the programs, compute max@k and pass@k",
    "solve": "print the best of many programs for one problem",
    "score": "judge a file of samples",
    "compare": "compare evaluated models, paired over their problems",
    "report": "write one offline HTML page about evaluated models",
    "problems": "list, show, prepare and check the problems of benchmarks",
    "mini": "make the embedded model and its problems",
    "study": "models x seeds from one recipe: tables, figures and a page",
    "demo": "train, evaluate and compare on the embedded model, in six minutes",
    "doctor": "show how well programs are isolated on this machine",
}
"""Verb -> what it does. `command` of `maxatk.cli.<verb>` does it, from the flags it declares, or
`run`, from the arguments as they are."""

_INTERRUPTED = 130  # the exit status shells use after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status: 0, 2 for bad input, 130 after Ctrl-C.

    It is 141 where the output is a pipe that was closed at its other end.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    return until_closed(lambda: _run(given))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())  # noqa: T201
        return 0
    if arguments[0] == "--version":
        from maxatk import __version__

        print(__version__)  # noqa: T201
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        return _fail(f"unknown verb {verb!r}{suggestion(verb, VERBS)}; see maxatk --help")
    try:
        import tyro
    except ImportError:
        return _fail("the command line needs a few packages more: pip install 'maxatk[cli]'")
    try:
        module = importlib.import_module(f"maxatk.cli.{verb}")
        if hasattr(module, "COMMANDS"):  # a verb with verbs of its own
            tyro.extras.subcommand_cli_from_dict(
                module.COMMANDS, prog=f"maxatk {verb}", description=module.HELP, args=rest
            )
        elif hasattr(module, "run"):  # a verb that reads its arguments itself
            module.run(rest)
        else:
            tyro.cli(module.command, prog=f"maxatk {verb}", args=rest)
    except (MaxAtKError, OSError) as error:  # OSError: a full disk, a folder that is a file
        if isinstance(error, BrokenPipeError) and closed_outputs():
            raise
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "maxatk").startswith("maxatk"):
            raise
        return _fail(f"{verb} needs the package {error.name!r}: pip install 'maxatk[train,report]'")
    except KeyboardInterrupt:
        _fail("interrupted; the same command goes on from here")
        return _INTERRUPTED
    return 0


def _fail(message: str) -> int:
    print(f"maxatk: {message}", file=sys.stderr)  # noqa: T201
    return 2


def _usage() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {text}" for verb, text in VERBS.items()]
    return "\n".join(
        [
            "usage: maxatk VERB ...",
            "",
            "Train and judge language models for best-of-N.",
            "",
            *lines,
            "",
            "maxatk VERB --help tells the rest.",
        ]
    )
