"""Evaluation and verification on the nodes of a Ray cluster (docs/scale.md)."""

from maxatk.engines.cluster.settings import ClusterSettings

__all__ = ["ClusterSettings"]
