"""The tiny model."""

from tiny import one_thread, tiny_model  # noqa: F401
