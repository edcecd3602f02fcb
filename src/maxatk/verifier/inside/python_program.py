"""A compiled program: its code, the names it uses, and what follows from them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# Worth importing once a program instead of once a test; each is harmless to import early.
_PRELOADED = {
    "array", "base64", "bisect", "calendar", "cmath", "collections", "copy", "ctypes",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "io",
    "itertools", "json", "math", "numbers", "numpy", "operator", "queue", "random", "re",
    "statistics", "string", "struct", "threading", "time", "types", "typing",
}  # fmt: skip
# A program that uses one of these may leave output to be written by a destructor.
_PRINT_LATE = {
    "__del__", "open", "fdopen", "IOBase", "RawIOBase", "BufferedWriter", "TextIOWrapper",
}  # fmt: skip
# A program that uses none of these has no way to start a thread, or none that it needs.
_START_THREADS = {
    "threading", "_thread", "concurrent", "asyncio", "multiprocessing", "ctypes", "faulthandler",
    "importlib", "__import__", "exec", "eval", "compile", "runpy", "builtins", "modules",
}  # fmt: skip


class Program:
    """`finalise` says that its destructors may matter, `threads` that it may start threads."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.names = _names(code)
        self.finalise = not _PRINT_LATE.isdisjoint(self.names)
        self.threads = not _START_THREADS.isdisjoint(
            part for name in self.names for part in name.split(".")
        )


def import_early(names: set[str]) -> None:
    """Import what the program names, where that is known to be harmless, and seed random numbers.

    NumPy's generators are seeded too, those without a seed of their own included.
    """
    modules: dict[str, Any] = sys.modules
    wanted = _PRELOADED & names
    if "numpy" in modules and any("random" in name.split(".") for name in names):
        wanted |= {"numpy.random"}
    for name in wanted:
        try:
            __import__(name)
        except Exception:  # its memory may be used up: no failure of ours
            continue  # the program will meet the same error, where it may expect it
    if "random" in modules:
        modules["random"].seed(0)
    if "numpy.random" in modules:
        modules["numpy.random"].seed(0)
        modules["numpy.random"].bit_generator.randbits = modules["random"].Random(0).getrandbits


def _names(code: CodeType) -> set[str]:
    names: set[str] = set()
    parts = [code]
    while parts:
        part = parts.pop()
        names.update(part.co_names)
        parts += [constant for constant in part.co_consts if isinstance(constant, type(code))]
    return names
