"""A sampling backend whose models run on the nodes of a cluster."""

from __future__ import annotations

import collections
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxatk.engines.cluster.connection import ShardWork, result_of, start_actors, work_of
from maxatk.engines.cluster.settings import ClusterSettings
from maxatk.engines.cluster.verifying import node_name
from maxatk.environment import environment
from maxatk.errors import InvalidValueError
from maxatk.evaluation.backends import Backend, ModelSettings, load_backend
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.records import Sample

BATCHES = 4
"""Batches of the model in a chunk of work; at its end a batch runs empty."""

AHEAD = 2
"""Chunks that a shard has at a time, so that it does not wait for the driver."""


class SamplingShard:
    """The actor of a shard: one model, loaded when it is needed, here or after a restart.

    `prompts` of its calls is a list with the reference of the prompts by problem id, which Ray then
    looks up only where the model is loaded.
    """

    def __init__(
        self, model: str, model_settings: ModelSettings, settings: SamplingSettings
    ) -> None:
        self._model, self._model_settings = model, model_settings
        self._settings = settings
        self._lock = threading.Lock()
        self._backend: Backend | None = None

    def describe(self, prompts: Sequence[Any]) -> dict[str, Any]:
        """Return node, CPU, version, and what the backend says of the model; raises its errors."""
        import ray

        backend = self._opened(prompts)
        return {
            "node": node_name(),
            "node_id": ray.get_runtime_context().get_node_id(),
            "cpu": environment()["cpu"],
            "maxatk": environment()["maxatk"],
            "batch_size": backend.batch_size,
            "model": backend.describe(),
        }

    def sample(self, requests: list[Request], prompts: Sequence[Any]) -> list[Sample]:
        """Return the samples asked for, in order."""
        drawn = self._opened(prompts).sample(requests, self._settings)
        return [sample for batch in drawn for sample in batch]

    def _opened(self, prompts: Sequence[Any]) -> Backend:
        with self._lock:
            if self._backend is None:
                import ray

                backend = load_backend(self._model, self._model_settings)
                backend.check(ray.get(prompts[0]), self._settings)
                self._backend = backend
            return self._backend


class ClusterSampler:
    """A `Backend` that hands requests to the shards of a cluster and yields their samples in order.

    Its models are loaded by `check`. A shard that dies is started again, on another node if its own
    is gone, and draws its chunks again: a sample is decided by seed, problem and number.
    """

    def __init__(
        self, ray: Any, cluster: ClusterSettings, model: str, model_settings: ModelSettings
    ) -> None:
        self._ray, self._cluster = ray, cluster
        self._model, self._model_settings = model, model_settings
        self._actors: list[Any] = []
        self._prompts: list[Any] = []
        self.shards: list[dict[str, Any]] = []
        self._done: list[int] = []
        self.batch_size = 0

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model and its numerics, the same on every shard."""
        described: dict[str, Any] = self.shards[0]["model"]
        return described

    def check(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Load the models and check the prompts, on every shard.

        Raises what the backend raises, InvalidValueError naming a node whose model differs.
        """
        self._prompts = [self._ray.put(dict(prompts))]  # kept, for a shard that is started again
        self._actors, self.shards = start_actors(
            self._ray,
            SamplingShard,
            self._cluster,
            self._model,
            self._model_settings,
            settings,
            at_a_time=1,
            told=[self._prompts],
        )
        first = self.shards[0]
        for shard in self.shards[1:]:
            for name in ("maxatk", "model"):
                if shard[name] != first[name]:
                    raise InvalidValueError(
                        f"cluster: the node {shard['node']} has another {name} than "
                        f"{first['node']}: {shard[name]!r} instead of {first[name]!r}"
                    )
        self._done = [0] * len(self.shards)
        self.batch_size = first["batch_size"]

    def work(self) -> list[ShardWork]:
        """Return the samples that each shard has drawn since `check`."""
        return work_of(self.shards, self._done)

    def sample(
        self,
        requests: Iterable[Request],
        settings: SamplingSettings,  # noqa: ARG002  (given to the shards by `check`)
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, a chunk at a time, in that order."""
        chunks = _chunks(requests, self.batch_size * BATCHES)
        idle = collections.deque([*range(len(self._actors))] * AHEAD)
        waiting: dict[Any, tuple[int, int]] = {}
        early: dict[int, list[Sample]] = {}
        sent = handed = 0
        more = True
        while more or waiting:
            while more and idle and sent - handed < 2 * AHEAD * len(self._actors):
                chunk = next(chunks, None)
                more = chunk is not None
                if chunk is not None:
                    shard = idle.popleft()
                    waiting[self._actors[shard].sample.remote(chunk, self._prompts)] = shard, sent
                    sent += 1
            if not waiting:
                return
            (done, *_), _ = self._ray.wait(list(waiting))
            shard, number = waiting.pop(done)
            idle.append(shard)
            early[number] = result_of(self._ray, done, what=f"chunk {number} of the samples")
            self._done[shard] += len(early[number])
            while handed in early:
                yield early.pop(handed)
                handed += 1

    def close(self) -> None:
        """End the shards."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []

    def __enter__(self) -> ClusterSampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _chunks(requests: Iterable[Request], size: int) -> Iterator[list[Request]]:
    """Yield the requests cut into lists of `size` samples, the last one smaller."""
    chunk: list[Request] = []
    room = size
    for request in requests:
        indices = list(request.indices)
        while indices:
            part, indices = indices[:room], indices[room:]
            chunk.append(Request(request.problem_id, request.prompt, part))
            room -= len(part)
            if room == 0:
                yield chunk
                chunk, room = [], size
    if chunk:
        yield chunk
