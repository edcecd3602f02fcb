"""The command `maxatk`: one module a command, imported only when its command is used."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from maxatk.cli.commands import COMMANDS, CommandRow
from maxatk.cli.merged_flags import merged_flags
from maxatk.errors import MaxAtKError, MissingDependencyError, printable, suggestion
from maxatk.version import VERSION

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
    _escape_what_cannot_be_encoded()
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
    except OSError as error:  # of a full disk
        _drop(1)
        return _fail(f"standard output: {error}")


def _escape_what_cannot_be_encoded() -> None:
    """Make a terminal or a locale that lacks a character, such as Latin-1, show its escape."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


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
    row = COMMANDS[name]
    try:
        _carry_out(name, flags)
    except BrokenPipeError:
        raise
    except (MaxAtKError, OSError) as error:  # OSError: a full disk, a folder that is a file
        return _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "maxatk").startswith("maxatk"):
            raise
        return _fail(f"{name} needs the package {error.name!r}: {_remedy(row, error.name)}")
    except KeyboardInterrupt as interrupt:
        does_resume = row.resumes_with(flags)
        remedy = str(interrupt) or ("the same command resumes" if does_resume else "")
        _fail(f"interrupted; {remedy}" if remedy else "interrupted")
        return _INTERRUPTED
    return 0


def _carry_out(name: str, arguments: list[str]) -> None:
    try:
        import tyro
    except ImportError:
        raise MissingDependencyError(
            "the command line needs a few packages more: pip install 'maxatk[cli]'"
        ) from None
    row = COMMANDS[name]
    called = f"maxatk {name}"
    description = None
    parsed: Any
    if not row.inner:
        arguments = merged_flags(arguments, row.flags)
        parsed = entry(name)
    elif arguments and arguments[0] in row.inner:
        # By itself, because tyro's errors would name it `maxatk check`.
        inner, *arguments = arguments
        called = f"{called} {inner}"
        arguments = merged_flags(arguments, row.inner[inner])
        parsed = inner_commands(name)[inner]
    else:  # help, or no command that there is
        description = f"{row.summary.capitalize()}."
        parsed = entry(name)
    # A function has done its work when its flags are read; a dataclass then runs.
    command = tyro.cli(parsed, prog=called, description=description, args=arguments)
    if command is not None:
        command.run(arguments)


def _print_help() -> None:
    print("usage: maxatk COMMAND ...\n\nTrain and evaluate language models for best-of-N.\n")
    for name, row in COMMANDS.items():
        print(f"  {name:<9} {row.summary}")
    print("\nmaxatk COMMAND --help tells the rest.")


def entry(name: str) -> Any:
    """Return what tyro makes a command of; only its own module is imported."""
    if COMMANDS[name].inner:
        from maxatk.cli.flags import one_command_of

        return one_command_of(inner_commands(name))
    module = importlib.import_module(f"maxatk.cli.{name}")
    return getattr(module, "command", None) or module.Command


def inner_commands(name: str) -> Mapping[str, Callable[..., Any]]:
    """Return the commands of a command that has some, by name."""
    module = importlib.import_module(f"maxatk.cli.{name}")
    commands: Mapping[str, Callable[..., Any]] = module.COMMANDS
    return commands


def _remedy(row: CommandRow, package: str | None) -> str:
    """Return how to install a package that a command needs, with the smallest extra."""
    package = (package or "").partition(".")[0]
    extras = EXTRAS.get(package, ())
    if not extras:
        return f"pip install {package}"
    needed_anyway = set(extras) & set(row.needs)
    chosen = ",".join(row.needs) if needed_anyway else extras[0]
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
    for number in closed:
        _drop(number)
    return bool(closed)


def _drop(number: int) -> None:
    """Write to an output no more: at its end the interpreter writes what is left in the buffers."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
