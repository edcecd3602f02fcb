"""What the flags of several commands share: runs by name, rewards, and commands of commands."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union

import tyro

from maxatk.cores import usable_cores
from maxatk.errors import InvalidValueError
from maxatk.evaluation.load import ResultsSource
from maxatk.exchange import parse_mapping
from maxatk.report.load_runs import Reading
from maxatk.settings import apply_overrides

_SMALL = 64 << 20  # bytes of weights


def one_command_of(parsers: Mapping[str, Any]) -> Any:
    """Return what tyro makes several commands of."""
    members = [
        Annotated[Any, tyro.conf.subcommand(name, constructor=parser, prefix_name=False)]
        for name, parser in parsers.items()
    ]
    union: Any = Union
    return union[tuple(members)]


def set_threads(model: str = "") -> None:
    """Make waiting threads sleep, and set how many a model has, unless the user has set it.

    A small model has one. Another has those that PyTorch takes, a thread for each core that it
    sees, or as many as cores may be used where a quota leaves more of them visible. To be called
    before torch is imported; without a `model` the built-in one is meant.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    weights = 1  # bytes: the built-in model is small
    if model:
        weights = sum(file.stat().st_size for file in Path(model).glob("*.safetensors"))
    if 0 < weights < _SMALL:  # 0 where they are not known
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        return
    cores = usable_cores()
    if cores < len(os.sched_getaffinity(0)):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def named_paths(items: Sequence[str]) -> dict[str, Path]:
    """Return paths by name of `name=path` or bare items; InvalidValueError for equal names."""
    named: dict[str, Path] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():  # runs/lr=1e-4 may be a path
            name = Path(os.path.abspath(item)).name  # of `.` too, and not what a link leads to
            path = item
        if not name.strip() or name in named:
            raise InvalidValueError(f"{item!r}: every run needs a name of its own: name=folder")
        named[name] = Path(path)
    return named


def named_sources(
    items: Sequence[str], mapping: Sequence[str], reading: Reading
) -> Mapping[str, ResultsSource]:
    """Return the runs of `named_paths`; files of rewards are read as `--map` says.

    Raises InvalidValueError without a run.
    """
    if not items:
        raise InvalidValueError(
            "runs: give one or more, before the flags: what stands behind a flag that takes "
            "several values, such as --map, belongs to it"
        )
    fields = parse_mapping(mapping)
    return {
        name: reading.results_of(path, fields) if fields and path.is_file() else path
        for name, path in named_paths(items).items()
    }


MapFlag = Annotated[
    tuple[str, ...],
    tyro.conf.arg(
        help=(
            "Where fields are in a row, as field=path.to.value other=path. Of lm-eval "
            "filter=NAME chooses a filter, of inspect scorer=NAME a scorer; several names, as in "
            "filter=strict-match,none, are for files of which each has one of them."
        )
    ),
]
"""The flag `--map`."""


def yaml_flag(key: str) -> Any:
    """Return what tyro reads a flag by: text, or YAML where a recipe would hold something else."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=key.upper(),
        instance_from_str=lambda texts: apply_overrides({}, [f"{key}={texts[0]}"])[key],
        is_instance=lambda _: True,
        str_from_instance=lambda value: [value if isinstance(value, str) else json.dumps(value)],
    )


RewardFlag = Annotated[Any, yaml_flag("reward")]
"""The flag `--reward`: a name, or YAML where a recipe would hold a mapping or a list."""
