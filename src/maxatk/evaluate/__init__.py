"""Sampling backends, append-only stores, evaluation runs and statistics."""
