"""Untrusted programs judged by running them: sandbox, comparison rules, pool, rewards."""
