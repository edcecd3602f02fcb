"""The command `doctor`: what isolates programs on this machine, proved by trying."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import TYPE_CHECKING

from maxatk.cli.tables import OutputFormat, print_json
from maxatk.errors import SandboxError
from maxatk.verifier import doctor

if TYPE_CHECKING:
    from maxatk.engines.verl.surface import Part


def command(format: OutputFormat = "text") -> None:
    """Show every layer of isolation, whether it holds on this machine and what it does.

    Where verl is installed, also what the plug-in for it builds on. Only a missing layer of
    isolation makes the command fail.

    Example: maxatk doctor

    Args:
        format: How the layers are printed; json is one object with a row a layer.
    """
    layers = doctor()
    verl = _verl()
    if format == "json":
        rows = [dataclasses.asdict(layer) for layer in layers]
        print_json({"layers": rows, "verl": [dataclasses.asdict(part) for part in verl]})
    else:
        reasons = [f"{x.meaning}{f' ({x.reason})' if x.reason else ''}" for x in layers]
        _print([(x.name, x.holds, reason) for x, reason in zip(layers, reasons, strict=True)])
    if verl and format == "text":
        print("\nverl")  # noqa: T201
        _print([(part.name, part.holds, part.reason) for part in verl])
    missing = [layer.name for layer in layers if layer.required and not layer.holds]
    if missing:
        raise SandboxError(f"doctor: programs cannot be verified safely here: {', '.join(missing)}")


def _verl() -> list[Part]:
    if importlib.util.find_spec("verl") is None:
        return []
    from maxatk.engines.verl.surface import registrations, surface  # takes seconds to import

    return [*surface(), *registrations()]


def _print(rows: list[tuple[str, bool, str]]) -> None:
    width = max(len(name) for name, _, _ in rows)
    for name, holds, text in rows:
        state = "holds  " if holds else "MISSING"
        print(f"{name:<{width}}  {state}  {text}".rstrip())  # noqa: T201
