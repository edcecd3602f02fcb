"""The flag `--reward`: a name, or YAML where a recipe would hold a mapping or a list."""

from __future__ import annotations

import json
from typing import Annotated, Any

import tyro
import yaml

from maxatk.errors import InvalidValueError


def _read(arguments: list[str]) -> Any:
    try:
        return yaml.safe_load(arguments[0])
    except yaml.YAMLError as error:
        raise InvalidValueError(f"reward: {arguments[0]!r} is not a YAML value") from error


RewardFlag = Annotated[
    Any,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="REWARD",
        instance_from_str=_read,
        is_instance=lambda _: True,
        str_from_instance=lambda value: [value if isinstance(value, str) else json.dumps(value)],
    ),
]
