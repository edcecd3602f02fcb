"""Train and judge language models for best-of-N."""

__version__ = "0.1.0"
