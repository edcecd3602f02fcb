"""Asserts of a data set as check tests: what they call, and the source of each check."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from maxatk.errors import DataError

# What the values that a function may return have: other attributes are of a class of the program.
_TYPES = (str, bytes, bytearray, list, tuple, dict, set, frozenset, complex, int, float, range)
_OF_DATES = ("year", "month", "day", "hour", "minute", "second", "days", "seconds")
_OF_OTHERS = ("quantize", "popleft", "appendleft", "maxlen")  # decimals and deques
_ATTRIBUTES = frozenset().union(_OF_DATES, _OF_OTHERS, *map(dir, _TYPES))


def assert_check(statement: str, name: str, *, before: str = "") -> str:
    """Return the check test of an assert on the function `name`, or the method `Class().name`.

    `before` are the lines that it needs. No line is indented: a text may go over several of them.
    """
    # The checker is a process of its own, where only `candidate` is the program's function.
    class_name, _, method = name.partition("().")
    if method:
        binding = f"class {class_name}:\n    {method} = staticmethod(candidate)\n"
    else:
        binding = f"{name} = candidate\n"
    return f"{before}\n{binding}{statement}\n".lstrip("\n")


def statements(text: str) -> list[str]:
    """Return the statements of a text; raises DataError for one that is no Python."""
    body = _parsed(text).body
    lines = text.encode().splitlines(keepends=True)  # of bytes: at the ends that Python knows
    places: list[tuple[int, int]] = []
    for node in body:
        start = node.lineno - 1
        end = node.end_lineno or node.lineno
        if places and start < places[-1][1]:  # behind a semicolon
            start = places.pop()[0]
        places.append((start, end))
    return [b"".join(lines[start:end]).decode().strip() for start, end in places]


def called(texts: Sequence[str], solution: str | None) -> str | None:
    """Return what asserts call: a function, or `Class().method`; None for other uses of objects.

    `solution` is a right program, where there is one, which says what is a class. Raises DataError
    where the asserts do not call one name.
    """
    trees = [_parsed(text) for text in texts]
    name = _shared_name(trees)
    uses = [use for tree in trees for use in _uses(tree, name)]
    methods = {method for method, _ in uses}
    if name not in _classes(solution):
        attributes = {method for method in methods if method is not None}
        if attributes <= _ATTRIBUTES and not (attributes and name[0].isupper()):
            return name
    if len(methods) == 1 and None not in methods and all(is_call for _, is_call in uses):
        return f"{name}().{methods.pop()}"
    return None


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"an assert is no Python: {text!r:.60}") from error


def names_called(tree: ast.AST) -> set[str]:
    """Return the names that a piece of code calls."""
    return {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def _shared_name(trees: Sequence[ast.Module]) -> str:
    """Return the name that all asserts call; raises DataError where there is none."""
    shared = set.intersection(*map(names_called, trees))
    functions = sorted(name for name in shared if not hasattr(builtins, name))
    if len(functions) != 1:
        raise DataError(f"its asserts must all call one function, got {functions}")
    return functions[0]


def _uses(tree: ast.Module, name: str) -> list[tuple[str | None, bool]]:
    """Return how each result of a name is used: the attribute, and whether `name().it()` calls it.

    The attribute is None for a result that is compared or handed over.
    """
    results = {id(node) for node in ast.walk(tree) if _is_call_of(node, name)}
    variables = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and id(node.value) in results
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    called_nodes = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    uses: list[tuple[str | None, bool]] = []
    with_attribute = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        value = node.value
        if isinstance(value, ast.Call) and id(value) in results:
            with_attribute.add(id(value))
            bare = not value.args and not value.keywords
            uses.append((node.attr, bare and id(node) in called_nodes))
        elif isinstance(value, ast.Name) and value.id in variables:
            uses.append((node.attr, False))
    return uses + [(None, False)] * len(results - with_attribute)


def _is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _classes(solution: str | None) -> set[str]:
    """Return the classes that a right program defines, none where it is not known."""
    if solution is None:
        return set()
    try:
        body = ast.parse(solution).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in body if isinstance(node, ast.ClassDef)}
