"""ms-swift: max@k of one of its rewards, for its GRPO without a division by the deviation.

`swift rlhf --rlhf_type grpo --external_plugins ms_swift_best_of.py --reward_funcs best_of
--scale_rewards none ...`, with whole groups in every process.

It ran on 23 November 2026 in `score_completions` and `compute_advantages` of ms-swift 3602360:
largest difference from `maxatk.advantages` 2.3e-7, in float32.
"""

from swift.rewards import ORM, orms

from maxatk import best_of


class BestOf(ORM):
    def __init__(self, args=None, **kwargs):
        super().__init__(args, **kwargs)
        self.reward = best_of(orms["accuracy"](args=args), k=4, groups="prompt_id")

    def __call__(self, completions, **columns):
        """Return a value for each completion; with the arguments, a wrong scale is refused."""
        prompts = columns["messages"]
        return self.reward(prompts=prompts, completions=completions, args=self.args, **columns)


orms["best_of"] = BestOf
