"""YAML as recipes are written in it: the values of YAML 1.2, every key once, and not too many."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

_TAG = "tag:yaml.org,2002:"
_KEPT = {f"{_TAG}null", f"{_TAG}merge"}
_MOST_PARTS = 300_000  # of a recipe whose aliases are written out: brackets, names, values
_MOST_MERGED = 10_000  # pairs that merge keys, `<<`, bring into one mapping and all before it
_BASES = {"0o": 8, "0x": 16}


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text, which JSON can hold: dates are text, `no` and `on` too.

    Numbers are those of YAML 1.2: 010 is 10, 0o10 is 8, and 1_000 or 1:30 are text. Raises
    yaml.YAMLError, for a key that stands twice in a mapping and for a text of too many values too.
    """
    import yaml

    try:
        value = yaml.load(text, _loader())  # a SafeLoader
        # As the folder of a run keeps it: what JSON cannot hold is no setting. Part by part, since
        # a few lines of aliases can stand for more values than the memory holds.
        for number, part in enumerate(json.JSONEncoder(ensure_ascii=False).iterencode(value)):
            part.encode()
            if number > _MOST_PARTS:
                raise ValueError("its aliases stand for too many values")
        return value
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    except (TypeError, ValueError) as error:  # such as of a number with thousands of digits
        raise yaml.YAMLError(str(error)) from error


@functools.cache
def _loader() -> Any:
    """Return the class that loads: YAML's safe types, with the scalars of YAML 1.2."""
    import yaml

    class Loader(yaml.SafeLoader):
        merged = 0  # pairs

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            lines: dict[tuple[str, str], int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                mark: Any = key.start_mark
                if (key.tag, key.value) in lines:
                    line = lines[key.tag, key.value]
                    problem = f"the key {key.value!r} stands twice, first in line {line}"
                    raise yaml.composer.ComposerError(None, None, problem, mark)
                lines[key.tag, key.value] = mark.line + 1
            return node

        def flatten_mapping(self, node: Any) -> None:
            before = len(node.value)
            super().flatten_mapping(node)
            self.merged += max(0, len(node.value) - before)
            if self.merged > _MOST_MERGED:
                problem = "its merge keys stand for too many values"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

        def construct_integer(self, node: Any) -> int:
            text = self.construct_scalar(node)
            base = _BASES.get(text[:2], 10)
            return int(text if base == 10 else text[2:], base)

    _resolve_scalars_of_yaml_1_2(Loader)
    Loader.add_constructor(f"{_TAG}int", Loader.construct_integer)
    return Loader


def _resolve_scalars_of_yaml_1_2(loader: Any) -> None:
    """Let a class that loads take plain scalars for what they are in YAML 1.2."""
    # YAML 1.1 also reads no, off, yes and on as booleans, and `save_strategy: no` means the text.
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _KEPT]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    boolean = r"true|True|TRUE|false|False|FALSE"
    integer = r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    decimal = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    number = rf"{decimal}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    # In this order: what both match is an integer.
    for name, pattern, starts in (
        ("bool", boolean, "tTfF"),
        ("int", integer, "-+0123456789"),
        ("float", number, "-+.0123456789"),
    ):
        loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"^(?:{pattern})$"), list(starts))
