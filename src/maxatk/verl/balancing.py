"""Whole groups of a rollout batch of verl: their rows, filled up and dealt to ranks evenly."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np


def prompt_of(key: str) -> str:
    """Return the prompt's part of a row's key, which is {uid}_{session}_{output}."""
    return key.rsplit("_", 2)[0]


def rows_of_group(keys: Sequence[str], n: int) -> int:
    """Return the rows that every group is filled to: those of the largest, as a multiple of n.

    A multiple, because sizes of passes were checked to divide n samples a prompt.
    """
    largest = max(Counter(map(prompt_of, keys)).values())
    return math.ceil(largest / n) * n


def filled_groups(batch: Any, n: int) -> list[list[int]]:
    """Return the rows of every group, each filled up to n with verl's empty rows."""
    rows_of_prompt: dict[str, list[int]] = defaultdict(list)
    spare: list[int] = []
    for row, (key, tag) in enumerate(zip(batch.keys, batch.tags, strict=True)):
        if tag.get("is_padding"):
            spare.append(row)
        else:
            rows_of_prompt[prompt_of(key)].append(row)
    groups = list(rows_of_prompt.values())
    for group in groups:
        group += [spare.pop() for _ in range(n - len(group))]
    # What is left fills the last mini-batch with groups of nothing.
    return groups + [spare[start : start + n] for start in range(0, len(spare), n)]


def balanced_order(tokens: np.ndarray, *, mini_batches: int, ranks: int) -> list[int]:
    """Return the order of G groups, of these `tokens`: rank by rank, and of each its mini-batches.

    Long groups are dealt first, to the rank with the fewest tokens so far.
    """
    groups_a_rank = len(tokens) // ranks
    shares: list[list[int]] = [[] for _ in range(ranks)]
    for group in np.argsort(-tokens, kind="stable"):
        open_shares = [share for share in shares if len(share) < groups_a_rank]
        shortest = min(open_shares, key=lambda share: sum(tokens[member] for member in share))
        shortest.append(int(group))
    order = []
    for share in shares:
        for first in range(mini_batches):  # long and short groups in each mini-batch of a rank
            order += share[first::mini_batches]
    return order
