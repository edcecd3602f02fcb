"""Scripts that no test runs import of the package what it has."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "experiments", "examples", "docs")
SCRIPTS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))


def imported_names(path):
    """Return module and name of each `from maxatk... import ...` of a script."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "maxatk":
            names += [(node.module, alias.name) for alias in node.names]
    return names


def is_there(module, name):
    if hasattr(importlib.import_module(module), name):
        return True
    try:
        return importlib.util.find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError:  # the module is no package
        return False


def test_there_are_scripts_of_each_folder():
    assert {path.parent.name for path in SCRIPTS} == set(FOLDERS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_a_script_imports_of_the_package_is_there(path):
    lacking = [
        f"{module}.{name}" for module, name in imported_names(path) if not is_there(module, name)
    ]
    assert not lacking
