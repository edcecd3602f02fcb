"""One tree of errors; each also derives from the built-in exception that a caller expects."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# All of them but tab and line feed: what moves a cursor, or starts a sequence that does worse.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class MaxAtKError(Exception):
    """Base class of every error that maxatk raises on purpose."""


class InvalidValueError(MaxAtKError, ValueError):
    """An argument or a setting has a value that is not allowed."""


class DataError(MaxAtKError, ValueError):
    """A file or a data row does not have the documented form."""


class MissingFileError(MaxAtKError, FileNotFoundError):
    """A file or a folder that was named does not exist."""


class MissingDependencyError(MaxAtKError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""


class SandboxError(MaxAtKError, RuntimeError):
    """The verifier cannot isolate programs on this machine, or its own machinery failed."""


class StageError(MaxAtKError, RuntimeError):
    """One stage of a longer run failed; the message names the stage and its log."""


class ServerError(MaxAtKError, RuntimeError):
    """A model server refused a request, or went on failing; the message names the sample."""


def suggestion(name: object, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest allowed name, or an empty string."""
    close = difflib.get_close_matches(str(name), list(allowed), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown_name(field: str, name: object, allowed: Iterable[str]) -> InvalidValueError:
    """Return the error for a name that is not in `allowed`, listing them and the closest one."""
    names = sorted(allowed)
    return InvalidValueError(
        f"{field}: unknown value {name!r}; allowed: {', '.join(names)}{suggestion(name, names)}"
    )


def counted(count: int, noun: str = "problem") -> str:
    """Return how many there are of something, as `1 problem` and `2,000 problems`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    r"""Return a text of which a terminal obeys nothing: control characters become `\x1b`."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
