"""Whether the installed verl is one that the plug-in is written for, and has taken it in."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from importlib import metadata

from packaging.specifiers import SpecifierSet

from maxatk.errors import MissingDependencyError

VERSIONS = {"verl": ">=0.9,<0.10", "ray": ">=2.41,<3", "TransferQueue": ">=0.1.10,<0.2"}

_TRAINERS = "verl.trainer.ppo.v1.trainer_base:TRAINER_REGISTRY"
_REGISTERED = {
    "maxatk": ("verl.trainer.ppo.core_algos:ADV_ESTIMATOR_REGISTRY", "plugin"),
    "maxatk_sync": (_TRAINERS, "trainers"),
    "maxatk_separate_async": (_TRAINERS, "trainers"),
}
"""What an entry point of this package registers -> the table of verl, and the module of it."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that is needed: whether it holds, and why not."""

    name: str
    holds: bool
    reason: str = ""


def versions() -> list[Check]:
    """Return whether verl and what it stands on have versions that fit; never raises."""
    checks = []
    for name, wanted in VERSIONS.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            checks.append(Check(name, False, f"is not installed; it must be {wanted}"))
            continue
        holds = SpecifierSet(wanted).contains(version, prereleases=True)
        checks.append(Check(f"{name} {version}", holds, "" if holds else f"must be {wanted}"))
    return checks


def registrations() -> list[Check]:
    """Return whether verl knows the estimator and the trainer; never raises."""
    checks = []
    for name, (table, module) in _REGISTERED.items():
        reason = ""
        try:
            if name not in pkgutil.resolve_name(table):
                reason = "the entry point was not loaded"
                importlib.import_module(f"maxatk.verl.{module}")  # which says why
        except Exception as error:  # whatever the import of verl raises is the reason
            reason = f"{type(error).__name__}: {error}"
        checks.append(Check(f"{name} in {table}", not reason, reason))
    return checks


def check_versions() -> None:
    """Raise MissingDependencyError with everything that does not fit."""
    missing = [f"{check.name}: {check.reason}" for check in versions() if not check.holds]
    if missing:
        wrong = "\n- ".join(missing)
        raise MissingDependencyError(
            f"verl does not fit this plug-in:\n- {wrong}\npip install 'maxatk[verl]'"
        )
