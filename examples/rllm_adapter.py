"""rLLM: max@k as an estimator of its registry.

Import this file in the script that trains, with `rllm.algorithm.adv_estimator=other`: rLLM reads
every name in that place that is not its own as "other". Its mode "broadcast" has one reward a
trajectory here; in "per_step" a group would be of one step, which is no max@k of trajectories.

It ran on 23 November 2026 in `collect_reward_and_advantage_from_trajectory_groups` of rLLM
9beb6e0: largest difference from `maxatk.advantages` 4.5e-16.
"""

import numpy as np
from rllm.trainer.algorithms.advantage import register_rllm_adv_estimator

from maxatk import advantages


@register_rllm_adv_estimator("other")
def max_at_k(rewards, **_):
    """Return the advantages and the returns of groups, one array of trajectories each."""
    lost = np.full(4, np.nan)  # so that a call with groups smaller than k gives them 0
    of_groups = advantages([*rewards, lost], "bon_loo1", k=4)[:-1]
    scaled = [len(group) * group for group in of_groups]
    return scaled, scaled
