"""What a rollout batch says about an objective, for verl's log."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxatk.engines.groups import Groups
from maxatk.engines.verl.loss import row_ids, row_rewards
from maxatk.objectives import max_at_k
from maxatk.objectives.scale import root_mean_square


def log_groups(metrics: dict[str, Any], data: Any, *, k: int) -> None:
    """Log k, max@k, the unscored share and the groups without signal of a rollout batch.

    `data` holds uid, rm_scores, response_mask and advantages of every row.
    """
    rewards = row_rewards(data)
    real = data["response_mask"].to_padded_tensor(0).sum(-1).cpu().numpy() > 0
    groups = Groups.of([one for one, is_real in zip(row_ids(data), real, strict=True) if is_real])
    table = groups.table(rewards[real])
    values = max_at_k(table, min(k, groups.width))
    known = values[~np.isnan(values)]
    first = np.asarray([float(row[0]) for row in data["advantages"].unbind()])[real]
    silent = (groups.table(first, fill=0.0) == 0).all(axis=1)
    metrics["maxatk/k"] = k
    metrics["maxatk/max_at_k"] = float(known.mean()) if len(known) else float("nan")
    metrics["maxatk/unscored"] = float(np.isnan(rewards[real]).mean())
    metrics["maxatk/groups_without_signal"] = float(silent.mean())
    metrics["maxatk/advantages_rms"] = root_mean_square(first)
