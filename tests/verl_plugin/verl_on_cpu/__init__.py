"""verl on a CPU, for tests: loaded by VERL_USE_EXTERNAL_MODULES=verl_on_cpu, in every process.

Its extension points are verl's own: `PlatformRegistry` (chosen by VERL_PLATFORM=cpu),
`RolloutReplicaRegistry` and the table of server adapters beside it.
"""

import os

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

from verl_on_cpu import platform  # noqa: F401


def _replica():
    from verl_on_cpu.rollout import TransformersReplica

    return TransformersReplica


RolloutReplicaRegistry.register("transformers", _replica)
base._ROLLOUT_REGISTRY["transformers", "async"] = "verl_on_cpu.rollout.TransformersAdapter"

folder = os.environ.get("VERL_ON_CPU_SPY")
if folder:
    from verl_on_cpu import spy

    spy.watch(folder)
