"""From the name of a function in a setting to the function."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingFileError, suggestion
from maxatk.named_files import modules_beside
from maxatk.settings import find_recipe


def load_function(target: str, *, field: str) -> Callable[..., Any]:
    """Return what `module:function` or `file.py:function`, the value of a setting `field`, names.

    A file is run once, as a module is, and again after it has changed. It may import modules that
    lie beside it, behind those that are installed.

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
    _refuse_others_of_the_name(path, source, field)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a module up by its name
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # for good: a function may import when it is called
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # half of it
        raise
    return module


def _refuse_others_of_the_name(path: Path, source: str, field: str) -> None:
    """Refuse a file that imports a module beside it where another of that name is loaded."""
    for module, beside in modules_beside(path).items():
        loaded_from = getattr(sys.modules.get(module), "__file__", None)
        is_other = loaded_from is not None and Path(loaded_from).resolve() != beside
        if is_other and beside.is_file():  # a folder without `__init__.py` may be in several places
            raise InvalidValueError(
                f"{field}: {source!r} imports {module!r}, which lies beside it, and another module "
                f"of that name is loaded: {loaded_from}; rename {str(beside)!r}"
            )


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
