"""The command `doctor`: what isolates programs on this machine, proved by trying."""

from __future__ import annotations

import importlib.util

from maxatk.errors import SandboxError
from maxatk.verifier import doctor


def command() -> None:
    """Show every layer of isolation, whether it holds on this machine and what it does.

    Where verl is installed, also what the plug-in for it builds on. Only a missing layer of
    isolation makes the command fail.

    Example: maxatk doctor
    """
    layers = doctor()
    reasons = [f"{layer.meaning}{f' ({layer.reason})' if layer.reason else ''}" for layer in layers]
    _print([(x.name, x.holds, reason) for x, reason in zip(layers, reasons, strict=True)])
    if importlib.util.find_spec("verl") is not None:
        from maxatk.engines.verl.surface import registrations, surface  # takes seconds to import

        print("\nverl")  # noqa: T201
        parts = [*surface(), *registrations()]
        _print([(part.name, part.holds, part.reason) for part in parts])
    missing = [layer.name for layer in layers if layer.required and not layer.holds]
    if missing:
        raise SandboxError(f"doctor: programs cannot be verified safely here: {', '.join(missing)}")


def _print(rows: list[tuple[str, bool, str]]) -> None:
    width = max(len(name) for name, _, _ in rows)
    for name, holds, text in rows:
        state = "holds  " if holds else "MISSING"
        print(f"{name:<{width}}  {state}  {text}".rstrip())  # noqa: T201
