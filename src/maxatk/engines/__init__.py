"""Engines of other projects that train, evaluate or verify on many machines: verl and Ray."""
