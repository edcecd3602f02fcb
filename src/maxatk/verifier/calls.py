"""Tests that call functions: what they call, and which value they expect."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable

from maxatk.errors import InvalidValueError
from maxatk.records import TestCase
from maxatk.verifier.python_source import FILE, with_hexadecimal_integers

_MOST_PARSED = 1 << 14  # characters of a call or a check that is read before it is run
_CALLED = re.compile(r"\s*([^\W\d]\w*)\s*\(")


def reason_against_expression(text: str) -> str:
    """Return why a text is no expression of Python, "" where it is one."""
    try:
        parsed_test(text.strip(), "eval")
    except SyntaxError as error:
        return error.msg
    return ""


def parsed_test(text: str, mode: str) -> ast.AST | None:
    """Return the syntax tree of a text, None for one that is long or deep: its run will tell.

    Raises SyntaxError.
    """
    if len(text) > _MOST_PARSED:
        return None
    try:
        return compile(text, FILE, mode, ast.PyCF_ONLY_AST, dont_inherit=True)
    except (RecursionError, MemoryError):
        return None
    except ValueError as error:  # a zero byte, or half of a pair of surrogates
        raise SyntaxError(str(error)) from error


# What the arguments of a plain call are made of.
_LITERAL_PARTS = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.expr_context),
    *(ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.Call, ast.keyword, ast.Starred),
)
_MAKERS = ("set", "frozenset", "list", "tuple", "dict", "range", "float", "complex", "bytearray")


def is_plain_call(text: str) -> bool:
    """Say whether an expression does nothing but call, as `f(1)` and `Solution().run([1])` do.

    Whatever else is in it, such as `sorted(f(1))` or `f(1) == 3`, the program could replace. One
    that is too long to parse counts as plain, and so does what is no expression.
    """
    try:
        tree = parsed_test(text.strip(), "eval")
    except SyntaxError:  # which a job refuses
        return True
    return not isinstance(tree, ast.Expression) or _is_plain(tree.body)


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=owner):
            return _is_plain(owner)
        case ast.Call(func=called, args=arguments, keywords=named):
            values = [*arguments, *(keyword.value for keyword in named)]
            return _is_plain(called) and all(map(_is_made_of_literals, values))
    return False


def _is_made_of_literals(node: ast.expr) -> bool:
    """Say whether an argument has no part that the program answers for, but for such as `set()`."""
    return all(
        part.id in _MAKERS if isinstance(part, ast.Name) else isinstance(part, _LITERAL_PARTS)
        for part in ast.walk(node)
    )


def called_name(tests: Iterable[TestCase]) -> str | None:
    """Return the function or class that the first call of tests is of, None without one.

    That is the first name called in it that is no builtin, as `two` in `sorted(two(3))`.
    """
    call = next((test.call for test in tests if test.call is not None), "")
    first = _CALLED.match(call)
    if first is not None and not hasattr(builtins, first[1]):
        return first[1]  # without parsing a call that may hold megabytes
    inside = _first_called_inside(call)
    return inside or (first[1] if first else None)


def _first_called_inside(call: str) -> str | None:
    """Return the first name of a call that is no builtin; one handed on where none is called."""
    try:
        tree = ast.parse(call.strip(), mode="eval")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [node.func for node in calls]
    handed_on = [argument for node in calls for argument in node.args]  # `list(map(two, [3]))`
    for nodes in (called, handed_on):
        names = [
            (node.lineno, node.col_offset, node.id)
            for node in nodes
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id)
        ]
        if names:
            return min(names)[2]
    return None


def expected_value(test: TestCase) -> object:
    """Return the expected value of a call test; raises InvalidValueError if not a literal."""
    output = test.output or ""
    try:
        try:
            return ast.literal_eval(output)
        except (ValueError, SyntaxError):
            # Python reads long decimal integers only where it is told to, hexadecimal ones always.
            return ast.literal_eval(with_hexadecimal_integers(output))
    except (
        *(ValueError, SyntaxError),
        TypeError,  # of a set or a key that cannot be hashed
        *(RecursionError, MemoryError),  # of one that is nested too deeply for Python's parser
    ) as error:
        raise InvalidValueError(
            f"TestCase(call={test.call!r:.80}): output must be a Python literal, got "
            f"{test.output!r:.80}"
        ) from error
