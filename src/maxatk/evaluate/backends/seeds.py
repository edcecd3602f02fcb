"""A seed for every sample, for backends that are asked for samples one by one."""

from __future__ import annotations

import hashlib


def sample_seed(seed: int, problem_id: str, index: int) -> int:
    """Return the seed of one sample, from 0 to 2^31 - 1."""
    digest = hashlib.sha256(f"{seed}\0{problem_id}\0{index}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
