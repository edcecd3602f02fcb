"""Slow, obvious implementations to compare the fast ones with."""

PAPER = (
    "grpo",
    "bon_max_mean",
    "bon_max_second",
    "bon_loo1",
    "bon_mean",
    "bon_off_policy",
    "bon_off_policy_exact",
)
"""The methods of the paper; the table may have others."""
