"""slime: max@k in place of the normalisation of the rewards.

`--custom-reward-post-process-path slime_adapter.post_process --advantage-estimator grpo`, with this
folder in PYTHONPATH. Samples with the same `rollout_id`, as of a context that was compacted, are
one rollout, which must have one reward.

It ran on 23 November 2026 in `RolloutManager._post_process_rewards` of slime 624b824: largest
difference from `maxatk.advantages` 4.5e-16. Rollouts of several samples were not run there.
"""

from collections import Counter

from maxatk import advantages


def post_process(args, samples):
    """Return the rewards and the advantages of samples, which slime spreads over the tokens."""
    rewards = [sample.get_reward_value(args) for sample in samples]
    prompts = [sample.group_index for sample in samples]
    ids = [getattr(sample, "rollout_id", None) for sample in samples]
    rollouts = [("row", row) if name is None else name for row, name in enumerate(ids)]
    size = max(Counter(prompt for prompt, _ in {*zip(prompts, rollouts, strict=True)}).values())
    values = advantages(rewards, "bon_loo1", k=4, groups=prompts, rollouts=rollouts)
    return rewards, (size * values).tolist()
