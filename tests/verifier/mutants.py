"""Programs with one number changed: what a verifier must tell from the original."""

import ast
import copy
from collections.abc import Iterator


def mutants(source: str) -> Iterator[str]:
    """Yield the source with one of its integers made larger by one, each in turn."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Constant) and type(node.value) is int:
            changed = copy.deepcopy(tree)
            constant = next(n for i, n in enumerate(ast.walk(changed)) if i == place)
            constant.value += 1
            yield ast.unparse(changed)
