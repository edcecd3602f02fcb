"""How a Python program binds the name that tests call."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator

from maxatk.verifier.python_source import parsed


class Binding(enum.IntEnum):
    """How a program binds a name; where several programs do, the higher one is the definition.

    A test may put a stand-in of its own in the place of a function, as in `f = Mock()`, and an
    example of use may import the function from a file that does not exist here.
    """

    NONE = 0
    IMPORTED = 1
    ASSIGNED = 2
    DEFINED = 3


class Definition:
    """The name that a program defines for its tests, or the class of a method's name."""

    def __init__(self, entry_point: str) -> None:
        self._name = entry_point.partition(".")[0].removesuffix("()")
        name = re.escape(self._name)
        self._lines = {
            Binding.DEFINED: rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b",
            Binding.ASSIGNED: rf"^{name}[ \t]*(?::[^=\n]{{1,200}})?=(?!=)",
            Binding.IMPORTED: rf"^(?:from[ \t]+[\w.]+[ \t]+)?import\b[^\n]{{0,200}}\b{name}\b",
        }

    def binding(self, text: str) -> Binding:
        """Return how a program binds the name at its top level, also inside `if` and `try`.

        Of what is no program, or is very long, the lines that begin at the margin are read.
        """
        if self._name not in text:
            return Binding.NONE
        tree = parsed(text)
        if tree is None:
            return self.binding_in_lines(text)
        kinds = [binding for name, binding in _bindings(tree) if name == self._name]
        return max(kinds, default=Binding.NONE)

    def binding_in_lines(self, text: str) -> Binding:
        """Return how lines that begin at the margin bind the name."""
        for binding, pattern in self._lines.items():
            if re.search(pattern, text, re.MULTILINE):
                return binding
        return Binding.NONE


_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bindings(tree: ast.Module) -> Iterator[tuple[str, Binding]]:
    """Yield the names that a program binds outside of functions and classes."""
    nodes: list[ast.AST] = [*tree.body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, Binding.DEFINED
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], Binding.IMPORTED
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, Binding.ASSIGNED
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue  # such as `add: int`, which binds nothing
        elif not isinstance(node, _SCOPES):
            nodes += ast.iter_child_nodes(node)
