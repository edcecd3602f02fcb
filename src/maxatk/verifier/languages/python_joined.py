"""Blocks of an answer as one Python program."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from maxatk.verifier.python_source import parsed


def in_one_program(blocks: Sequence[str]) -> str:
    """Return blocks, which are programs, one behind the other as one program.

    Python allows an import from `__future__` at the beginning of a program alone: those of later
    blocks are moved there, with those of the first.
    """
    imports = [_future_imports(block) for block in blocks]
    if not any(imports[1:]):
        return "\n".join(blocks)
    lines = [ast.unparse(node) for nodes in imports for node in nodes]
    header = "".join(f"{line}\n" for line in dict.fromkeys(lines))
    return header + "\n".join(map(_without, blocks, imports))


def _future_imports(program: str) -> list[ast.ImportFrom]:
    if "__future__" not in program:
        return []
    tree = parsed(program)
    return [
        node
        for node in (tree.body if tree else ())
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]


def _without(program: str, statements: Sequence[ast.stmt]) -> str:
    """Return a program without some of its statements, "pass" where more is on their lines."""
    if not statements:
        return program
    lines = program.encode().splitlines(keepends=True)  # of bytes, as Python counts
    for node in reversed(statements):
        first = node.lineno - 1
        last = node.end_lineno or node.lineno
        before = lines[first][: node.col_offset]
        behind = lines[last - 1][node.end_col_offset :]
        is_alone = not before.strip() and not behind.strip()
        lines[first:last] = [] if is_alone else [before + b"pass" + behind]
    return b"".join(lines).decode()
