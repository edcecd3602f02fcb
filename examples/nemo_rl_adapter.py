"""NeMo-RL: max@k in place of its estimator "grpo".

Its estimators are a closed list, of which this file replaces one and then runs the script that
trains: `python nemo_rl_adapter.py examples/run_grpo.py --config ...`.

It ran on 23 November 2026 as `_create_advantage_estimator` of NeMo-RL 7ea279a makes it: largest
difference from `maxatk.advantages` 1.1e-7, in float32.
"""

import runpy
import sys

import torch
from nemo_rl.algorithms import grpo

from maxatk import advantages


class MaxAtK(grpo.GRPOAdvantageEstimator):
    def compute_advantage(self, prompt_ids, rewards, mask, **_):
        prompts = torch.unique(prompt_ids, dim=0, return_inverse=True)[1]
        size = int(prompts.bincount().max())
        scaled = size * advantages(rewards, "bon_loo1", k=4, groups=prompts)
        return scaled[:, None].expand(mask.shape)


grpo.GRPOAdvantageEstimator = MaxAtK

if __name__ == "__main__":
    runpy.run_path(sys.argv.pop(1), run_name="__main__")
