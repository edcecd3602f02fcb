"""The command `doctor`: what isolates programs on this machine, proved by trying."""

from __future__ import annotations

from maxatk.errors import SandboxError
from maxatk.verifier import doctor


def command() -> None:
    """Show every layer of isolation, whether it holds on this machine and what it does.

    Example: maxatk doctor
    """
    layers = doctor()
    width = max(len(layer.name) for layer in layers)
    for layer in layers:
        state = "holds  " if layer.holds else "MISSING"
        reason = f" ({layer.reason})" if layer.reason else ""
        print(f"{layer.name:<{width}}  {state}  {layer.meaning}{reason}")  # noqa: T201
    missing = [layer.name for layer in layers if layer.required and not layer.holds]
    if missing:
        raise SandboxError(f"doctor: programs cannot be verified safely here: {', '.join(missing)}")
