"""Evaluation and verification on the nodes of a Ray cluster (docs/evaluation.md)."""

from maxatk.engines.cluster.shards import ClusterSettings

__all__ = ["ClusterSettings"]
