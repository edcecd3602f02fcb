"""Metrics, subset weights and estimators of best-of-N training; NumPy only."""
