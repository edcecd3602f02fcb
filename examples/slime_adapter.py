"""slime: max@k in place of the normalisation of the rewards.

`--custom-reward-post-process-path slime_adapter.post_process --advantage-estimator grpo`, with this
folder in PYTHONPATH, for rollouts that are one training sample each.

It ran on 23 November 2026 in `RolloutManager._post_process_rewards` of slime 624b824: largest
difference from `maxatk.advantages` 4.5e-16.
"""

from collections import Counter

from maxatk import advantages


def post_process(args, samples):
    """Return the rewards and the advantages of samples, which slime spreads over the tokens."""
    rewards = [sample.get_reward_value(args) for sample in samples]
    prompts = [sample.group_index for sample in samples]
    size = max(Counter(prompts).values())
    return rewards, (size * advantages(rewards, "bon_loo1", k=4, groups=prompts)).tolist()
