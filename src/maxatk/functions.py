"""From the name of a function in a setting to the function."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingFileError, suggestion
from maxatk.settings import find_recipe


def load_function(target: str, *, field: str) -> Callable[..., Any]:
    """Return what `module:function` or `file.py:function`, the value of a setting `field`, names.

    A file is run once, as a module is, and again after it has changed.

    Raises MissingFileError without the file, InvalidValueError for a failed import or no function.
    """
    source, _, name = target.rpartition(":")
    require(bool(source and name), field, "module:function or file.py:function", target)
    of_file = source.endswith(".py")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # tables alone are standard output
            module = _from_file(source, field) if of_file else importlib.import_module(source)
    except (MissingFileError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an import may even exit, and the command would end with 0
        # A command does not look for modules in the working folder.
        files = [path.name for path in Path().glob("*.py")]
        absent = isinstance(error, ModuleNotFoundError) and error.name == source
        reason = said_by(error) + (suggestion(source, files) if absent else "")
        raise InvalidValueError(f"{field}: {source!r} cannot be imported: {reason}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        public = [n for n, value in vars(module).items() if callable(value) and n[0] != "_"]
        hint = suggestion(name, public)
        raise InvalidValueError(f"{field}: {source!r} has no function {name!r}{hint}")
    return function


def _from_file(source: str, field: str) -> Any:
    try:
        path = find_recipe(Path(source))  # or one that comes with the package
    except MissingFileError:
        raise MissingFileError(f"{field}: {source!r} does not exist") from None
    content = path.read_bytes()
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + content).hexdigest()[:8]
    name = f"maxatk_reward_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half of it
        raise
    return module


def digest_of_file(target: str) -> str | None:
    """Return the SHA-256 of the file in `file.py:function`, None where there is no such file."""
    path = Path(target.rpartition(":")[0])
    return _digest(path) if path.suffix == ".py" else None


def files_named(settings: Any) -> dict[str, str]:
    """Return the SHA-256 of the files that a recipe names, by how it names them.

    They are those of functions and classes, `file.py:name`, and of chat templates.
    """
    digests: dict[str, str] = {}
    for key, text in _texts(settings):
        digest = _digest(Path(text)) if key == "template" else digest_of_file(text)
        if digest is not None:
            digests[text] = digest
    return digests


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _texts(value: Any, key: str | None = None) -> Iterator[tuple[str | None, str]]:
    """Yield every text inside of settings, with the key that it belongs to."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, name)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, key)


def own_lines(error: BaseException) -> str:
    """Return the lines of a traceback that are neither ours nor of an installed package."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib")]
    of_others = (str(Path(__file__).parent), *installed, "<")
    frames = traceback.extract_tb(error.__traceback__)
    of_user = [frame for frame in frames if not frame.filename.startswith(of_others)]
    return "".join(["\n", *traceback.format_list(of_user)]).rstrip()


def said_by(error: BaseException) -> str:
    """Return type and text of an error; its text may raise one itself."""
    try:
        return f"{type(error).__name__}: {error!s:.200}"
    except BaseException:
        return f"{type(error).__name__}, whose text cannot be read"
