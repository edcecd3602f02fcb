"""Training for max@k on TRL."""
