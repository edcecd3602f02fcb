"""OpenRLHF: max@k in rewards whose group mean, which its estimator "dr_grpo" subtracts, is 0.

Its estimators are a closed list in a Ray actor, and its reward functions see one sample at a time.
`ray job submit --runtime-env-json='{"worker_process_setup_hook": "openrlhf_adapter.install",
"working_dir": FOLDER_OF_THIS_FILE}' -- python -m openrlhf.cli.train_ppo_ray
--algo.advantage.estimator dr_grpo ...`

It ran on 23 November 2026 in `compute_advantages_and_returns` of OpenRLHF 3c3be62, without Ray's
hook: largest difference from `maxatk.advantages` 2.3e-7, in float32.
"""

from maxatk import advantages


def install():
    import torch
    from openrlhf.trainer.ppo_utils import length_penalty

    penalties = length_penalty.apply_length_penalties

    def with_max_at_k(experiences, args):
        penalties(experiences, args)
        size = args.rollout.n_samples_per_prompt
        prompts = [place // size for experience in experiences for place in experience.index]
        rewards = torch.cat([experience.rewards for experience in experiences])
        scaled = size * advantages(rewards, "bon_centred", k=4, groups=prompts)
        for experience in experiences:
            experience.rewards, scaled = scaled.tensor_split([len(experience.index)])

    length_penalty.apply_length_penalties = with_max_at_k
