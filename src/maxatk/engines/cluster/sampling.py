"""A sampling backend whose models run on the nodes of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.engines.cluster.shards import (
    ClusterSettings,
    Shards,
    connected,
    node_of_shard,
)
from maxatk.environment import environment
from maxatk.records import Sample
from maxatk.sampling import Backend, ModelSettings, Request, SamplingSettings, load_backend
from maxatk.sampling.backend import in_order

BATCHES = 4
"""Batches of the model in a chunk of work; at its end a batch runs empty."""

AHEAD = 2
"""Chunks that a shard has at a time."""


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
        self._backend: Backend | None = None

    def describe(self, prompts: Sequence[Any]) -> dict[str, Any]:
        """Return node, CPU, version, and what the backend says of the model; raises its errors."""
        backend, here = self._opened(prompts), environment()
        return {
            **node_of_shard(),
            **{name: here[name] for name in ("cpu", "maxatk")},
            "batch_size": backend.batch_size,
            "model": backend.describe(),
        }

    def sample(self, requests: list[Request], prompts: Sequence[Any]) -> list[Sample]:
        """Return the samples asked for, in order."""
        drawn = self._opened(prompts).sample(requests, self._settings)
        return [sample for batch in drawn for sample in batch]

    def _opened(self, prompts: Sequence[Any]) -> Backend:
        if self._backend is None:
            import ray

            backend = load_backend(self._model, self._model_settings)
            backend.prepare(ray.get(prompts[0]), self._settings)
            self._backend = backend
        return self._backend


class ClusterSampler:
    """A `Backend` that hands requests to the shards of a cluster and yields their samples in order.

    Its models are loaded by `prepare`. A shard that dies is started again, on another node if its
    own is gone, and draws its chunks again: a sample is decided by seed, problem and number.
    """

    def __init__(
        self, ray: Any, cluster: ClusterSettings, model: str, model_settings: ModelSettings
    ) -> None:
        self._ray = ray
        self._model, self._model_settings = model, model_settings
        self._prompts: list[Any] = []
        self._shards = Shards(ray, SamplingShard, cluster, at_a_time=1)
        self.batch_size = 0

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model and its numerics, the same on every shard."""
        described: dict[str, Any] = self._shards.said[0]["model"]
        return described

    def prepare(self, prompts: Mapping[str, str], settings: SamplingSettings) -> None:
        """Load the models and check the prompts, on every shard.

        Raises what the backend raises, InvalidValueError naming a node whose model differs.
        """
        self._shards.close()
        self._prompts = [self._ray.put(dict(prompts))]  # kept, for a shard that is started again
        self._shards.start(self._model, self._model_settings, settings, told=[self._prompts])
        first = self._shards.said[0]
        self._shards.check_same(maxatk=first["maxatk"], model=first["model"])
        self.batch_size = first["batch_size"]

    def sample(
        self, requests: Iterable[Request], settings: SamplingSettings
    ) -> Generator[list[Sample], None, None]:
        """Yield the samples asked for, in that order; the settings are those of `prepare`."""
        return in_order(requests, settings, self._drawn)

    def _drawn(
        self,
        requests: list[Request],
        settings: SamplingSettings,  # noqa: ARG002  (given to the shards by `prepare`)
    ) -> Generator[Sequence[Sample], None, None]:
        found = self._shards.stream(
            _chunks(requests, self.batch_size * BATCHES),
            lambda actor, chunk: actor.sample.remote(chunk, self._prompts),
            ahead=AHEAD,
            window=2 * AHEAD * len(self._shards.actors),
        )
        return (samples for _, _, samples in found)

    def close(self) -> None:
        """End the shards."""
        self._shards.close()


@contextlib.contextmanager
def open_sampler(
    model: str | Path, settings: ModelSettings, cluster: ClusterSettings
) -> Iterator[ClusterSampler | None]:
    """Yield a backend whose models are on the cluster; None without one.

    Raises what `connected` raises; the models are loaded by the backend's `prepare`.
    """
    if cluster.address is None:
        yield None
        return
    with (
        connected(cluster) as ray,
        contextlib.closing(ClusterSampler(ray, cluster, str(model), settings)) as there,
    ):
        yield there


def _chunks(requests: Iterable[Request], size: int) -> Iterator[list[Request]]:
    """Yield the requests cut into lists of `size` samples, the last one smaller."""
    asked = ((request, index) for request in requests for index in request.indices)
    while chunk := list(itertools.islice(asked, size)):
        yield [
            dataclasses.replace(request, indices=[index for _, index in pairs])
            for request, pairs in itertools.groupby(chunk, key=lambda pair: pair[0])
        ]
