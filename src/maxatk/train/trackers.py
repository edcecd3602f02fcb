"""The trackers that `report_to` names, looked for before any weight is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from maxatk.errors import MissingDependencyError, unknown_name

TRACKERS = ("tensorboard", "trackio", "wandb")
"""The trackers that were tried; each is also the name of its package."""


def check_trackers(names: Sequence[str]) -> None:
    """Raise InvalidValueError for an unknown tracker, MissingDependencyError for one not here.

    Only the packages of `TRACKERS` are looked for; transformers does it for the others, later.
    """
    here = get_available_reporting_integrations()
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise unknown_name("report_to", name, [*INTEGRATION_TO_CALLBACK, "none"])
        if name in TRACKERS and name not in here:
            raise MissingDependencyError(
                f"report_to: {name!r} needs the package {name}: pip install {name}"
            )
