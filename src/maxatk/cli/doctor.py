"""The verb `doctor`: what isolates programs on this machine, proved by trying."""

from __future__ import annotations

from maxatk.verifier.settings import JudgeSettings


def command() -> None:
    """Show every layer of isolation and whether it holds on this machine."""
    with JudgeSettings(workers=1).open() as verifier:
        layers = verifier.isolation
    width = max(map(len, layers))
    for layer, state in layers.items():
        text = "holds" if state is True else "MISSING" if state is False else f"MISSING: {state}"
        print(f"{layer:<{width}}  {text}")  # noqa: T201
