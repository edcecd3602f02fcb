"""The command `doctor`: what works on this machine."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxatk.cli.output import OutputFormat, emit, shown
from maxatk.errors import SandboxError, StageError
from maxatk.verifier import LanguageHere, Layer, doctor, languages_here

if TYPE_CHECKING:
    from maxatk.cli.doctor_engines import TriedEngine
    from maxatk.verl.installation import Check


def command(format: OutputFormat = "text", engines: bool = False) -> None:
    """Show every layer of isolation, whether it holds on this machine and what it does.

    Also the languages that programs can be verified in, each tried with its compiler, and where
    verl is installed what the plug-in for it builds on. The command fails for a missing
    layer that is required, and for an engine that was asked for and does not work.

    Example: maxatk doctor --engines

    Args:
        engines: Compare what each engine here draws with a plain forward pass, and the gradient of
            padded rows with that of the rows alone, in about a minute.
    """
    layers = doctor()
    parts_of_verl: list[Check] = []
    if importlib.util.find_spec("verl"):
        from maxatk.verl.installation import registrations, versions  # takes seconds to import

        parts_of_verl = [*versions(), *registrations()]
    tried: list[TriedEngine] = []
    if engines:
        from maxatk.cli.doctor_engines import try_engines
        from maxatk.cli.doctor_gradient import try_gradient

        tried = [*try_engines(), *try_gradient()]
    missing = [layer.name for layer in layers if layer.required and not layer.holds]
    tables: dict[str, Sequence[Layer | LanguageHere | Check | TriedEngine]] = {
        "layers": layers,
        "languages": [] if missing else languages_here(),
        "verl": parts_of_verl,
        "engines": tried,
    }
    rows = {name: list(map(dataclasses.asdict, table)) for name, table in tables.items()}
    emit({name: shown(of_table, title=name) for name, of_table in rows.items()}, format)
    if missing:
        raise SandboxError(f"doctor: programs cannot be verified safely here: {', '.join(missing)}")
    failed = [engine.name for engine in tried if not engine.holds]
    if failed:
        raise StageError(f"doctor: does not work on this machine: {', '.join(failed)}")
