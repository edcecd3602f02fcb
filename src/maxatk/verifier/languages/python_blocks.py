"""How the blocks of a Python answer hang together: what they define, what they lack, what repeats.

A model may give its program in pieces, and then explain parts of it in further blocks.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Sequence
from typing import NamedTuple

from maxatk.verifier.languages.python_joined import in_one_program
from maxatk.verifier.languages.python_streams import reads
from maxatk.verifier.python_source import FILE, LONGEST, parsed
from maxatk.verifier.repeated_blocks import MOST_BLOCKS, Excerpt, Lines


class Blocks:
    """The blocks of an answer, the last ones, and how they hang together."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts[-MOST_BLOCKS:]
        self._names: dict[str, _Names] = {}
        for text in self.texts:
            names = _names(text)
            if names is not None:
                self._names[text] = names
        self._lines: dict[str, Lines] = {}

    def with_helpers(self, program: str) -> str:
        """Return a program with the blocks that define what it lacks, in the order of the text.

        They do nothing but define: an example would run with the program.
        """
        if program not in self._names:
            return program
        with_needed = self._joined(program)
        return in_one_program([text for text in self._names if text in with_needed])

    def runs(self, program: str) -> bool:
        """Say whether a program with its helpers does more than define."""
        return any(
            text not in self._names or not self._names[text].only_defines
            for text in self._joined(program)
        )

    def lacks(self, program: str, earlier: str) -> bool:
        """Say whether a program lacks, with its helpers too, what an earlier block defines."""
        if program not in self._names or earlier not in self._names:
            return False
        joined = self._joined(program)
        if any(self._names[text].imports_all for text in joined):
            return False
        return bool(self._lacking(joined) & self._names[earlier].defined)

    def excerpt(self, text: str, earlier: str) -> Excerpt | None:
        """Return how a block stands in an earlier one, which is a program."""
        if earlier not in self._names and len(earlier) <= LONGEST:
            return None
        return self._lines_of(text).in_other(self._lines_of(earlier))

    def is_small_excerpt(self, text: str, earlier: str) -> bool:
        """Say whether a block is some lines of an earlier one, half of them at most."""
        excerpt = self.excerpt(text, earlier)
        return excerpt is not None and excerpt.share <= 0.5

    def _joined(self, program: str) -> set[str]:
        """Return a program and the blocks that define what it lacks."""
        joined = {program}
        if program not in self._names:
            return joined
        while True:
            lacking = self._lacking(joined)
            helpers = {
                text
                for text, names in self._names.items()
                if names.only_defines and names.defined & lacking
            }
            if helpers <= joined:
                return joined
            joined |= helpers

    def _lacking(self, joined: set[str]) -> frozenset[str]:
        """Return the names that some blocks use and none of them defines."""
        defined = frozenset().union(*(self._names[text].defined for text in joined))
        return frozenset().union(*(self._names[text].lacking for text in joined)) - defined

    def _lines_of(self, text: str) -> Lines:
        if text not in self._lines:
            self._lines[text] = Lines(text, comment="#")
        return self._lines[text]


class _Names(NamedTuple):
    """What a block defines at its top level and what it lacks, and if it does nothing else.

    `imports_all` says that it has an import of `*`, which may bring what it lacks.
    """

    defined: frozenset[str]
    lacking: frozenset[str]
    only_defines: bool
    imports_all: bool


def _names(text: str) -> _Names | None:
    """Return what a block defines and lacks; None for one that Python cannot compile."""
    tree = parsed(text)
    if tree is None:
        return None
    try:
        table = symtable.symtable(text, FILE, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # such as a return outside a function, or an expression of too many parts
    symbols = table.get_symbols()
    defined = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    used = {s.get_name() for s in symbols if s.is_referenced()}
    scopes = table.get_children()
    while scopes:
        scope = scopes.pop()
        for symbol in scope.get_symbols():
            if symbol.is_global():
                used.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
        scopes += scope.get_children()
    lacking = frozenset(used - defined - set(dir(builtins)))
    only_defines = all(map(_only_defines, tree.body))
    return _Names(frozenset(defined), lacking, only_defines, any(map(_imports_all, tree.body)))


def _imports_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _only_defines(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return not any(map(reads, ast.walk(node)))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return isinstance(node, definitions) or is_stub(node)


def is_stub(node: ast.stmt) -> bool:
    """Say whether a statement does nothing: a function without a body, a constant, an import.

    A function that raises NotImplementedError is a template without a body.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return all(map(is_stub, node.body))
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return (
        constant
        or isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom))
        or (isinstance(node, ast.Raise) and _is_not_implemented(node.exc))
    )


def _is_not_implemented(error: ast.expr | None) -> bool:
    name = error.func if isinstance(error, ast.Call) else error
    return isinstance(name, ast.Name) and name.id == "NotImplementedError"
