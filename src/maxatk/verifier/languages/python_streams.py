"""Whether a Python program reads its input and writes to its output."""

from __future__ import annotations

import ast
import re

from maxatk.verifier.python_source import parsed

# In a text that Python cannot parse. An assignment to sys.stdin reads nothing.
_READS = re.compile(r"\binput\s*\(|\bstdin\b(?!\s*=(?!=))|\b(?:open|os\.read)\s*\(\s*0\b")
# A text of its own in the place of the input, as an example has it.
_HAS_INPUT = re.compile(r"\bstdin\s*=\s*(?:io\.)?StringIO\s*\(\s*(?!sys\b|stdin\b|os\b|open\b)")
_WRITERS = ("print", "pprint", "write", "writelines", "stdout", "__stdout__")
_WRITES = re.compile(rf"\b(?:{'|'.join(_WRITERS)})\b")  # in a text that Python cannot parse


def reads_input(program: str) -> bool:
    """Say whether a program reads the input, and no text of its own in its place.

    Comments and strings do not count, unless a string may be run.
    """
    tree = parsed(program)
    nodes = [] if tree is None else list(ast.walk(tree))
    if tree is None or any(map(_may_run_a_string, nodes)):
        return _READS.search(program) is not None and not _HAS_INPUT.search(program)
    return any(map(reads, nodes)) and not any(map(_has_own_input, nodes))


def writes_output(program: str) -> bool:
    """Say whether a program prints, or names what it could write to its output with.

    Comments and strings do not count, unless a string may be run.
    """
    tree = parsed(program)
    nodes = [] if tree is None else list(ast.walk(tree))
    if tree is None or any(map(_may_run_a_string, nodes)):
        return _WRITES.search(program) is not None
    return any(map(_writes, nodes))


def reads(node: ast.AST) -> bool:
    """Say whether a node calls `input`, opens or reads file 0, or names sys.stdin to use it."""
    match node:
        case ast.Call(func=ast.Name("input") | ast.Attribute(attr="input")):
            return True
        case ast.Call(
            func=ast.Name("open")
            | ast.Attribute(attr="open")
            | ast.Attribute(ast.Name("os"), "read"),
            args=[ast.Constant(0), *_],
        ):
            return True
        case ast.Name("stdin", ctx=ast.Load()) | ast.Attribute(attr="stdin", ctx=ast.Load()):
            return True
        case ast.alias(name="stdin"):
            return True
    return False


def _writes(node: ast.AST) -> bool:
    """Say whether a node names `print`, `write` or the like to use it, or sys.stdout."""
    match node:
        case ast.Name(name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            return name in _WRITERS
        case ast.alias(name):
            return name in _WRITERS
    return False


def _has_own_input(node: ast.AST) -> bool:
    """Say whether a node puts a text in the place of sys.stdin."""
    match node:
        case ast.Assign(
            targets=[ast.Name("stdin") | ast.Attribute(attr="stdin")],
            value=ast.Call(
                func=ast.Name("StringIO") | ast.Attribute(attr="StringIO"), args=arguments
            ),
        ):
            parts = [part for argument in arguments for part in ast.walk(argument)]
            names = {part.id for part in parts if isinstance(part, ast.Name)}
            return names.isdisjoint(("sys", "stdin", "os", "open"))
    return False


def _may_run_a_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("exec", "eval")
