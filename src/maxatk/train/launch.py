"""What `accelerate launch` has made of a training: shared weights, and launches not meant so."""

from __future__ import annotations

import os
from typing import Any

from maxatk.check import require


def process_count() -> int:
    """Return how many processes `accelerate launch` has started for a training, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def shards_weights(config: Any) -> bool:
    """Return whether settings or `accelerate launch` give the weights to FSDP or DeepSpeed."""
    names = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
    launched = any(os.environ.get(name, "false").lower() in ("true", "1") for name in names)
    return bool(config.fsdp or config.deepspeed or launched)


def check_processes(config: Any) -> None:
    """Refuse launches that accelerate would not do as they were meant, before any weights."""
    launched = process_count()
    kind = config.distributed_state.distributed_type
    apart = launched > 1 and kind == "NO"
    allowed = f"True for {launched} processes without a GPU, each of which would train alone"
    require(not apart, "use_cpu", allowed, config.use_cpu)
    sharded = shards_weights(config) and kind == "MULTI_CPU"
    allowed = "left out on a CPU, where accelerate runs DDP: recipes/accelerate/two_cpus.yaml"
    require(not sharded, "fsdp", allowed, config.fsdp)
