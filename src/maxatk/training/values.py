"""What a training logs of its groups and ratios: the part of its log that is about max@k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maxatk.objectives import effective_sample_size, max_at_k
from maxatk.objectives.checks import as_floats
from maxatk.objectives.objective import root_mean_square
from maxatk.statistics.intervals import default_ks
from maxatk.training import keys
from maxatk.training.groups import Groups

_LARGEST_LOG_RATIO = 50.0  # nats, beyond which exp is of no use to a reader


def group_values(
    groups: Groups, advantages: np.ndarray, texts: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the log values of groups, given their advantages (P, n) as the loss gets them.

    They are max@k for k = 1, 2, 4 .. n and the trained k; k; the root mean square of the
    advantages; and shares: of groups whose advantages are all 0, of groups with a sample that is
    worth 1 or more, of distinct completions in a group, of rewarded samples whose text is rewarded
    in another group too, of unscored samples.
    """
    values = {
        keys.max_at(k): mean_max_at_k(groups.rewards, k) for k in logged_ks(groups.size, groups.k)
    }
    values[keys.K] = float(groups.k)
    values[keys.RMS] = root_mean_square(advantages)
    values[keys.SILENT] = float((advantages == 0).all(axis=1).mean())
    values[keys.SOLVED] = float(groups.solved().mean())
    values[keys.DISTINCT] = float(np.mean([len(set(group)) / len(group) for group in texts]))
    values[keys.SHARED] = _rewarded_elsewhere(groups.rewards, texts)
    values[keys.UNSCORED] = _unscored(groups, texts)
    return values


def ratio_values(
    log_ratios: npt.ArrayLike, *, clamp: float | None, k: int | None = None
) -> dict[str, float]:
    """Return how far the policy has moved from the one that sampled.

    `log_ratios` are in nats, (P, n) with `k`, which adds the effective sample size of the weights
    of k-subsets; `clamp` is the objective's `delta_clamp`. NaN is a sample without a ratio, as one
    that the loss leaves out: it does not count, and without any other all values are NaN. Raises as
    `effective_sample_size`.
    """
    logs = as_floats("log_ratios", log_ratios)
    logs_of_loss = logs[~np.isnan(logs)]
    deviations = np.abs(np.expm1(np.clip(logs_of_loss, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)))
    bound = np.inf if clamp is None else clamp
    values = {
        keys.MEAN_DELTA: _mean(deviations),
        keys.MAX_DELTA: float(np.max(deviations)) if len(deviations) else np.nan,
        keys.CLAMPED: _mean(deviations > bound),
    }
    if k is not None:
        values[keys.EFFECTIVE] = _mean(_effective_shares(logs, k, clamp))
    return values


def _effective_shares(logs: np.ndarray, k: int, clamp: float | None) -> np.ndarray:
    """Return the effective share of each group (P, n) with a ratio, among the samples that have."""
    if not np.isnan(logs).any():
        return effective_sample_size(logs, min(k, logs.shape[-1]), clamp=clamp)
    shares = []
    for group in logs:
        ratios = group[~np.isnan(group)]
        if len(ratios):
            shares.append(effective_sample_size(ratios[None], min(k, len(ratios)), clamp=clamp))
    return np.concatenate([*shares, []])


def _mean(values: np.ndarray) -> float:
    """Return the mean, NaN of nothing."""
    return float(np.mean(values)) if len(values) else np.nan


def logged_ks(group_size: int, k: int) -> list[int]:
    """Return the k whose max@k is logged: 1, 2, 4 .. n and the trained one, ascending."""
    return sorted({*default_ks(group_size), min(k, group_size)})


def mean_max_at_k(rewards: np.ndarray, k: int) -> float:
    """Return the mean max@k of the groups (P, n) with k scored samples; NaN where none has."""
    values = max_at_k(rewards, k)
    return _mean(values[~np.isnan(values)])


def mean_reward(rewards: np.ndarray) -> float:
    """Return the mean of the rewards that are known, NaN without any."""
    return _mean(rewards[~np.isnan(rewards)])


def _rewarded_elsewhere(rewards: np.ndarray, texts: Sequence[Sequence[str]]) -> float:
    """Return the share of rewarded samples whose text is rewarded in another group too.

    Rewarded are those above the least reward of the batch: a constant penalty pays nobody.
    """
    above_least = rewards > np.nanmin(rewards, initial=np.inf)
    rewarded_texts = []
    for group_texts, rewarded in zip(texts, above_least, strict=True):
        # Texts may be fewer than places, where a trainer has lost samples.
        pairs = zip(group_texts, rewarded, strict=False)
        rewarded_texts.append([text for text, pays in pairs if pays])
    groups_of_text = Counter(text for group in rewarded_texts for text in set(group))
    all_rewarded = [text for group in rewarded_texts for text in group]
    elsewhere = sum(groups_of_text[text] > 1 for text in all_rewarded)
    return elsewhere / max(len(all_rewarded), 1)


def _unscored(groups: Groups, texts: Sequence[Sequence[str]]) -> float:
    """Return the share of the samples that should have a reward and have none."""
    lacking = np.isnan(groups.rewards)
    if groups.masked is not None:
        lacking &= ~groups.masked
    # A place without a text is no sample: the trainer has lost it.
    counts = [len(group) for group in texts]
    unscored = sum(int(row[:count].sum()) for row, count in zip(lacking, counts, strict=True))
    return unscored / sum(counts)
