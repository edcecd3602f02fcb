"""Tests that no program would pass, or every program: they are refused before any runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeGuard

from maxatk.errors import InvalidValueError
from maxatk.records import TestCase
from maxatk.verifier.calls import parsed_test, reason_against_expression

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
# By one of these a check may call functions without their names.
_REACHING = ("globals", "locals", "vars", "dir", "eval", "exec", "modules", "inspect")
# What may raise where a comparison fails has one of these in its name.
_FAILING = ("assert", "fail", "exit", "abort", "raise", "eval", "exec")
# What runs tests of unittest without raising where one fails, and what tells afterwards.
_RUNNERS = ("TextTestRunner", "TestSuite", "TestLoader", "defaultTestLoader", "TestResult")
_RESULTS = ("wasSuccessful", "failures", "errors", "addFailure", "addError", "getvalue")
_RAISING = ("debug", "main", "getattr", "eval", "exec")  # by which a test may run and raise


def refuse_unusable(test: TestCase, entry_point: str | None) -> None:
    """Raise InvalidValueError for a call that is no expression, and a check that decides nothing.

    `entry_point` is what a check is about.
    """
    if test.call is not None:
        reason = reason_against_expression(test.call)
        if reason:
            raise InvalidValueError(
                f"TestCase(call={test.call!r:.80}): call must be an expression of Python: {reason}"
            )
    if test.check is not None:
        reason = _reason_against_check(test.check, entry_point or "")
        if reason:
            raise InvalidValueError(
                f"TestCase(check={test.check!r:.80}): check must be Python with an assert, or with "
                f"a function check(candidate): {reason}"
            )


def _reason_against_check(source: str, entry_point: str) -> str:
    """Return why a check would pass every program or none, "" where it need not."""
    try:
        tree = parsed_test(source, "exec")
    except SyntaxError as error:
        return f"{error.msg} in line {error.lineno}"
    if not isinstance(tree, ast.Module):
        return ""
    checks = [node for node in tree.body if isinstance(node, _FUNCTIONS) and node.name == "check"]
    for check in checks:
        yields = any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in _own_parts(check))
        if yields or isinstance(check, ast.AsyncFunctionDef):
            return "a call of that function would run none of it"
    if not _decides(ast.walk(tree)):
        return "nothing in it can fail"
    if _ignores_results(tree):
        return "nothing looks at what its unittest runner returns: assert result.wasSuccessful()"
    if _ignores_comparisons(tree, checks):
        return "nothing fails where a comparison in it is false: write assert before it"
    all_runs = "def " not in source and "__main__" not in source
    if all_runs or any(_decides_alone(check) for check in checks):
        return ""  # as nearly all are: what runs of others takes longer to find out
    return _reason_against_functions(tree, entry_point, checks)


def _reason_against_functions(
    tree: ast.Module, entry_point: str, checks: Sequence[_Function]
) -> str:
    """Return why a check in which functions decide would pass every program, or ""."""
    running = _running_parts(tree)
    if not _decides(running):
        return "nothing calls the functions in it"
    names_of_program = {"candidate", "check", entry_point.partition(".")[0].removesuffix("()")}
    for check in checks:  # whose parameter is the program, whatever its name
        names_of_program |= {part.arg for part in ast.walk(check.args) if isinstance(part, ast.arg)}
    if names_of_program.isdisjoint(_names(ast.walk(tree))):
        return ""  # without an entry point the names of the program are unknown
    if names_of_program.isdisjoint(_names(running)):
        return "nothing calls the functions in it"
    return ""


def _decides(parts: Iterable[ast.AST]) -> bool:
    return any(isinstance(part, (ast.Assert, ast.Raise, ast.Call)) for part in parts)


def _decides_alone(check: _Function) -> bool:
    """Say whether a function `check` may fail and has no functions inside, which may not run."""
    has_functions = any(isinstance(part, _FUNCTIONS) for part in _own_parts(check))
    return not has_functions and _decides(ast.walk(check))


def _ignores_comparisons(tree: ast.Module, checks: Sequence[_Function]) -> bool:
    """Say whether nothing can fail by a comparison, which is returned, dropped or printed."""
    parts = list(ast.walk(tree))
    if any(isinstance(part, (ast.Assert, ast.Raise)) for part in parts):
        return False
    imported = {part.name for part in parts if isinstance(part, ast.alias)}
    names = " ".join(_names(parts) | imported).lower()
    if any(word in names for word in _FAILING):
        return False
    returned = [
        part.value for check in checks for part in _own_parts(check) if isinstance(part, ast.Return)
    ]
    dropped = [part.value for part in parts if isinstance(part, ast.Expr)]
    printed = [value for part in parts for value in _printed(part)]
    return (
        any(map(_is_truth, returned))
        or any(map(_is_comparison, printed))
        or any(isinstance(value, ast.Compare) for value in dropped)
    )


def _printed(part: ast.AST) -> Iterator[ast.expr]:
    """Yield what a call of `print` prints, also inside of an f-string."""
    if not (isinstance(part, ast.Call) and isinstance(part.func, ast.Name)):
        return
    if part.func.id != "print":
        return
    for value in part.args:
        if isinstance(value, ast.JoinedStr):
            yield from (p.value for p in value.values if isinstance(p, ast.FormattedValue))
        else:
            yield value


def _is_comparison(value: ast.expr) -> bool:
    if isinstance(value, ast.BoolOp):  # `print(answer or "none")` compares nothing
        return any(map(_is_comparison, value.values))
    return not isinstance(value, ast.Constant) and _is_truth(value)


def _is_truth(value: ast.expr | None) -> bool:
    """Say whether an expression says that a program is right or wrong, where nobody asks it."""
    if isinstance(value, ast.Constant):
        return value.value is False
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("all", "any", "bool")
    is_not = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    return is_not or isinstance(value, (ast.Compare, ast.BoolOp))


def _ignores_results(tree: ast.Module) -> bool:
    """Say whether tests of unittest alone decide, and they run so that none of them raises."""
    everything = list(ast.walk(tree))
    outside = list(_outside_cases(tree))
    methods = _function_names(everything) - _function_names(outside)
    names = _function_names(everything) | _names(everything)
    if names.isdisjoint(_RUNNERS) or not names.isdisjoint(_RESULTS + _RAISING):
        return False
    calls_a_test = not methods.isdisjoint(_names(outside))
    return not calls_a_test and not any(
        isinstance(node, (ast.Assert, ast.Raise)) for node in outside
    )


def _outside_cases(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the parts of a check that are not of a class that derives from TestCase."""
    parts: list[ast.AST] = [tree]
    while parts:
        part = parts.pop()
        bases = part.bases if isinstance(part, ast.ClassDef) else []
        if any(ast.unparse(base).endswith("TestCase") for base in bases):
            continue
        yield part
        parts += ast.iter_child_nodes(part)


def _own_parts(function: _Function) -> Iterator[ast.AST]:
    """Yield the parts of a function that are not of a function inside it."""
    parts: list[ast.AST] = list(function.body)
    while parts:
        part = parts.pop()
        yield part
        if not isinstance(part, (*_FUNCTIONS, ast.Lambda)):
            parts += ast.iter_child_nodes(part)


def _running_parts(tree: ast.Module) -> list[ast.AST]:
    """Return the parts of a check that run: not those of functions that nothing names.

    A name may call a function, and that of its class a method. `check` is called.
    """
    classes = {
        id(method): node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for method in node.body
    }
    imported = {name for node in ast.walk(tree) for name in _imported_names(node)}
    running: list[ast.AST] = []
    uncalled: list[_Function] = []
    statements: list[ast.stmt] = [*tree.body]
    # What runs may name functions whose statements run as well, until it names no other one.
    while statements:
        parts, functions = _parts_and_functions(statements)
        running += parts
        uncalled += functions
        names = {"check", *_names(running)}
        called = [
            function
            for function in uncalled
            if not names.isdisjoint({function.name, classes.get(id(function)), *_REACHING})
            or not _root_names(function.decorator_list) <= imported
        ]
        uncalled = [function for function in uncalled if function not in called]
        statements = [statement for function in called for statement in function.body]
    return running


def _parts_and_functions(statements: Iterable[ast.stmt]) -> tuple[list[ast.AST], list[_Function]]:
    """Return the parts of statements outside all functions, and the outermost functions."""
    parts: list[ast.AST] = []
    functions: list[_Function] = []
    left: list[ast.AST] = [*statements]
    while left:
        part = left.pop()
        if isinstance(part, _FUNCTIONS):
            functions.append(part)
            continue
        parts.append(part)
        left += part.orelse if _is_of_scripts(part) else ast.iter_child_nodes(part)
    return parts, functions


def _is_of_scripts(node: ast.AST) -> TypeGuard[ast.If]:
    """Say whether a statement is `if __name__ == "__main__"`, of which a check runs nothing."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names and attributes among nodes."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def _function_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.name for node in nodes if isinstance(node, _FUNCTIONS)}


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]


def _root_names(decorators: Sequence[ast.expr]) -> set[str]:
    """Return the first name of each decorator, such as `pytest`."""
    return {ast.unparse(decorator).partition(".")[0].partition("(")[0] for decorator in decorators}
