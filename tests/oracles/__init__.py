"""Slow, obvious implementations to compare the fast ones with."""
