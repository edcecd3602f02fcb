"""Sampling backends: one class each, listed in `BACKENDS`.

A backend draws the samples of a queue of requests, each for indices of one problem. To add one,
write a class with the methods of `Backend` and the class method `open(model, settings)` in a module
of its own and add one row to `BACKENDS` in `table`.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Protocol

from maxatk.errors import MissingDependencyError, unknown_name
from maxatk.evaluation.backends.model_settings import ModelSettings, ServerSettings
from maxatk.evaluation.backends.table import BACKENDS, BackendRow
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.models import refuse_missing_model
from maxatk.records import Sample

__all__ = ["BACKENDS", "Backend", "BackendRow", "ModelSettings", "ServerSettings", "load_backend"]


class Backend(Protocol):
    """What the evaluation run needs of a sampler.

    `batch_size`, known after `check`, is how many samples are under way at a time.
    """

    batch_size: int

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model and its numerics, as JSON, for the manifest."""

    def check(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Raise InvalidValueError if a prompt (by problem id) cannot be sampled."""

    def sample(
        self, requests: Iterable[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, in that order, as they are drawn; the same on every call.

        The batch is kept full across the requests. Closing the generator drops the rest.
        """


def load_backend(model: str, settings: ModelSettings) -> Backend:
    """Return the backend of the settings with `model` loaded.

    Raises InvalidValueError for an unknown backend and for settings the backend has no use for,
    MissingDependencyError when its packages are not installed, MissingFileError when there is no
    such model.
    """
    name = settings.backend
    if name not in BACKENDS:
        raise unknown_name("backend", name, BACKENDS)
    row = BACKENDS[name]
    if row.has_files:  # before torch is imported, which takes seconds
        refuse_missing_model(model, revision=settings.revision)
    module, _, attribute = row.path.partition(":")
    try:
        backend_class = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise MissingDependencyError(
            f"backend {name!r} needs the package {error.name!r}: {row.install}"
        ) from error
    backend: Backend = backend_class.open(model, settings)
    return backend
