"""prime-rl: max@k in place of its algorithm "grpo", without the length penalty of that.

Its table of algorithms takes no path to a file, so start the orchestrator with this file:
`python prime_rl_adapter.py @ orchestrator.toml`. Roles of one episode are groups of their own.

It ran on 23 November 2026 in `finalize_group` of prime-rl 559b447: as `maxatk.advantages`.
"""

from prime_rl.entrypoints.orchestrator import main
from prime_rl.orchestrator.algo import ALGORITHM_CLASSES, GRPOAlgorithm, assign_advantages
from prime_rl.orchestrator.algo.base import iter_trainable_traces

from maxatk import advantages


class MaxAtK(GRPOAlgorithm):
    async def score_group(self, episodes):
        every = [trace for _, trace in iter_trainable_traces(episodes)]
        for role in {trace.agent.name for trace in every}:
            traces = [trace for trace in every if trace.agent.name == role]
            lost = [float("nan")] * (4 - len(traces))  # fewer than k without error: all get 0
            values = advantages([[trace.reward for trace in traces] + lost], "bon_loo1", k=4)[0]
            for trace, value in zip(traces, values, strict=False):
                assign_advantages(trace, len(traces) * float(value))


ALGORITHM_CLASSES["grpo"] = MaxAtK

if __name__ == "__main__":
    main()
