"""Sampling from a language model: settings, and backends that draw what they are asked for."""

from maxatk.sampling.backend import Backend, load_backend
from maxatk.sampling.settings import (
    BACKENDS,
    BackendRow,
    ModelSettings,
    Request,
    SamplingSettings,
    ServerSettings,
)

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendRow",
    "ModelSettings",
    "Request",
    "SamplingSettings",
    "ServerSettings",
    "load_backend",
]
