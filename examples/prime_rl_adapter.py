"""prime-rl: max@k in place of its algorithm "grpo", without the length penalty of that.

Its table of algorithms takes no path to a file, so start the orchestrator with this file:
`python prime_rl_adapter.py @ orchestrator.toml`; trainer and inference have their own commands.

It ran on 23 November 2026 in `finalize_group` of prime-rl 559b447: as `maxatk.advantages`.
"""

from prime_rl.entrypoints.orchestrator import main
from prime_rl.orchestrator.algo import ALGORITHM_CLASSES, GRPOAlgorithm, assign_advantages
from prime_rl.orchestrator.algo.base import iter_trainable_traces

from maxatk import advantages


class MaxAtK(GRPOAlgorithm):
    async def score_group(self, episodes):
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        lost = [float("nan")] * (4 - len(traces))  # fewer than k rollouts without error: all get 0
        found = advantages([[trace.reward for trace in traces] + lost], "bon_loo1", k=4)[0]
        for trace, advantage in zip(traces, found, strict=False):
            assign_advantages(trace, len(traces) * float(advantage))


ALGORITHM_CLASSES["grpo"] = MaxAtK

if __name__ == "__main__":
    main()
