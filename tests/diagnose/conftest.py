"""The tiny model, whose gradients are computed."""

from tiny import one_thread, tiny_model  # noqa: F401
