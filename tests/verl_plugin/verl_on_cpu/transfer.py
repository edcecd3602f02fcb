"""Weights for servers of their own devices: what NCCL carries between GPUs goes through a file."""

import os
import time
from pathlib import Path

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileEngine(CheckpointEngine):
    """A file a version. The sender writes it whole; a receiver waits for it."""

    def __init__(self, bucket_size, is_master=False): ...

    def prepare(self):
        return {}

    @classmethod
    def build_topology(cls, senders, receivers, metadata):
        return {"rank": list(range(senders))}, {"rank": list(range(receivers))}

    def init_process_group(self, rank): ...

    def finalize(self): ...

    @staticmethod
    def _path(version):
        return Path(os.environ["VERL_ON_CPU_SPY"]) / f"weights-{version}.pt"

    async def send_weights(self, weights, global_steps=None):
        state = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        path = self._path(global_steps)
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    async def receive_weights(self, global_steps=None):
        while not self._path(global_steps).exists():
            time.sleep(0.01)
        for name, tensor in torch.load(self._path(global_steps)).items():
            yield name, tensor
