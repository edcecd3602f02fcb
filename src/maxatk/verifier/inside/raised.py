"""Exceptions that cross from a program to the checker of a check test.

What crosses is names, texts and encoded values. The checker makes the exception of classes that it
has itself: a builtin one, or one of a few modules that the check has imported. It imports none, for
the program may name any.
"""

from __future__ import annotations

import builtins
import sys

from maxatk.verifier.inside import values

TYPE_CHECKING = False  # `typing` itself would make every fork slower
if TYPE_CHECKING:
    from typing import Any

_MOST_CLASSES = 20
_MOST_TEXT = 1000  # characters
_MOST_ARGUMENTS = 1 << 16  # bytes of their encoding
# Modules whose exceptions tell of bad values. One of `unittest` would skip a test.
_MODULES = frozenset(
    {
        "_csv", "binascii", "calendar", "configparser", "dataclasses", "decimal", "graphlib",
        "ipaddress", "json.decoder", "re", "statistics", "struct", "tokenize",
        "xml.etree.ElementTree", "zlib",
    }
)  # fmt: skip
# Each would end a loop of the test over its cases, as if all of them were done.
_END_LOOPS = (StopIteration, StopAsyncIteration)


class CandidateError(Exception):
    """The program has ended, or what it has sent is no answer."""


def told(error: BaseException) -> tuple[Any, ...]:
    """Return what crosses of an exception: names of its classes, text, arguments, attributes.

    What cannot cross is left out; of the arguments the text is what remains.
    """
    classes = type(error).__mro__[:_MOST_CLASSES]
    names = [(str(kind.__module__), str(kind.__name__)) for kind in classes]
    try:
        text = str(error)[:_MOST_TEXT]
    except Exception:  # of a method of the program
        text = ""
    arguments: tuple[Any, ...] = tuple(error.args)
    if isinstance(error, OSError) and len(arguments) == 2 and error.filename is not None:
        arguments = (*arguments, error.filename)
    if not _crosses(arguments):
        arguments = (text,)
    attributes = {
        str(name): value for name, value in error.__dict__.items() if _crosses((name, value))
    }
    return names, text, arguments, attributes if _crosses(attributes) else {}


def _crosses(value: Any) -> bool:
    try:
        return len(values.encode(value, foreign=True)) <= _MOST_ARGUMENTS
    except Exception:  # also one of a method of the program
        return False


def raised(names: Any, text: Any, arguments: Any, attributes: Any) -> BaseException:
    """Return the exception to raise for what `told` returned, or for what a program made up."""
    try:
        return _made_anew([(str(m), str(n)) for m, n in names], str(text), arguments, attributes)
    except (ValueError, TypeError, AttributeError):
        return CandidateError("not an answer")


def _made_anew(
    names: list[tuple[str, str]], text: str, arguments: tuple[Any, ...], attributes: dict[str, Any]
) -> BaseException:
    bases = _bases(names[:_MOST_CLASSES])
    own_module, own_name = names[0]
    if any(issubclass(base, _END_LOOPS) for base in bases):
        return RuntimeError(f"the program raised {own_name[:100]}")
    body: dict[str, Any] = {"__module__": own_module}
    kind = bases[0]
    if _known(own_module, own_name) is not kind:
        kind = _subclass(own_name, bases, body)
    error = _made(kind, arguments)
    if str(error)[:_MOST_TEXT] != text:  # a method of the program has made it
        body["__str__"] = lambda _: text
        error = _made(_subclass(own_name, bases, body), arguments)
    error.__dict__.update(attributes)
    return error


def _bases(names: list[tuple[str, str]]) -> list[type[BaseException]]:
    """Return the nearest known classes among those of an exception, none above another one."""
    bases: list[type[BaseException]] = []
    for module, name in names:
        kind = _known(module, name)
        if kind is not None and not any(issubclass(base, kind) for base in bases):
            bases.append(kind)
    return bases or [Exception]


def _known(module: str, name: str) -> type[BaseException] | None:
    """Return a class of exceptions that the checker has itself, None where it has none."""
    if module == "builtins":
        kind = getattr(builtins, name, None)
    elif module in _MODULES and module in sys.modules:
        kind = getattr(sys.modules[module], name, None)
    else:
        return None
    if not isinstance(kind, type) or not issubclass(kind, (Exception, SystemExit)):
        return None
    # A group needs exceptions as arguments, which do not cross.
    is_group = issubclass(kind, getattr(builtins, "BaseExceptionGroup", ()))
    return None if is_group else kind


def _subclass(
    name: str, bases: list[type[BaseException]], body: dict[str, Any]
) -> type[BaseException]:
    title = name[:100] if name.isidentifier() else "Error"
    try:
        return type(title, tuple(bases), dict(body))
    except TypeError:  # such as two classes whose instances are laid out differently
        return type(title, (bases[0],), dict(body))


def _made(kind: type[BaseException], arguments: tuple[Any, ...]) -> BaseException:
    """Return an exception with these arguments, which may be others than those of its making."""
    try:
        return kind(*arguments)
    except Exception:
        error = kind.__new__(kind)
        error.args = arguments
        return error
