"""A verifier whose programs run on the nodes of a cluster."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from maxatk.engines.cluster.shards import (
    ClusterSettings,
    Shards,
    ShardWork,
    connected,
    node_of_shard,
)
from maxatk.environment import environment
from maxatk.errors import SandboxError
from maxatk.records import Verdict
from maxatk.verifier import Ahead, AnyVerifier, Job, Verifier, VerifierSettings

CHUNK = 16
"""Programs that a shard is handed at a time, or fewer, so that every shard has some."""

AHEAD = 4
"""Chunks that a shard has at a time."""


class VerifyingShard:
    """The actor of a shard: one verifier, made when it is needed, here or after a restart."""

    def __init__(self, settings: VerifierSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._verifier: Verifier | None = None

    def describe(self) -> dict[str, Any]:
        """Return node, Ray's id of it, CPU, versions, isolation and limits of this shard.

        Raises SandboxError naming the node where it cannot isolate programs.
        """
        verifier, here = self._opened(), environment()
        return {
            **node_of_shard(),
            **{name: here[name] for name in ("cpu", "cores", "maxatk", "python")},
            "isolation": dict(verifier.isolation),
            "limits": verifier.limits,
        }

    def verify(self, jobs: Sequence[Job]) -> list[Verdict]:
        """Return the verdicts of jobs in order."""
        return self._opened().verify_many(jobs)

    def _opened(self) -> Verifier:
        with self._lock:
            if self._verifier is None:
                try:
                    self._verifier = self._settings.open()
                except SandboxError as error:
                    node = node_of_shard()["node"]
                    raise SandboxError(f"cluster: the node {node}: {error}") from error
            return self._verifier


class ClusterVerifier(AnyVerifier):
    """A verifier that hands programs to the shards of a cluster.

    A shard that dies is started again, on another node if its own is gone, and does its chunks
    again; StageError where that does not help. `isolation` holds a layer where it holds on every
    node, `shards` what each shard said of itself at the start.

    Raises SandboxError for a node that cannot isolate programs and InvalidValueError for one with
    another version of this package, both by name and before any program runs.
    """

    def __init__(self, ray: Any, settings: ClusterSettings, verifier: VerifierSettings) -> None:
        self._limits = verifier.limits()
        self._shards = Shards(ray, VerifyingShard, settings, at_a_time=AHEAD)
        self._shards.start(verifier)
        self.shards = self._shards.said
        self._shards.check_same(maxatk=environment()["maxatk"])
        self.isolation = _weakest([shard["isolation"] for shard in self.shards])

    def work(self) -> list[ShardWork]:
        """Return the programs that each shard has verified."""
        return self._shards.work()

    def _verdicts(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Verdict]]:
        found = self._shards.stream(
            _chunks(jobs, len(self.shards)),
            lambda actor, chunk: actor.verify.remote(chunk),
            ahead=AHEAD,
        )
        for _, chunk, verdicts in found:
            yield from zip(chunk, verdicts, strict=True)

    def ahead(self) -> Ahead | None:
        """Return None: shards are sent chunks of programs, which are full only at the end."""
        return None

    def close(self) -> None:
        """End the shards."""
        self._shards.close()


@contextlib.contextmanager
def open_verifier(verifier: VerifierSettings, cluster: ClusterSettings) -> Iterator[AnyVerifier]:
    """Yield a verifier with these settings; on a cluster, `verifier.workers` is that of a shard.

    Raises what `connected`, `ClusterVerifier` and `Verifier` raise.
    """
    if cluster.address is None:
        with verifier.open() as here:
            yield here
        return
    with connected(cluster) as ray, ClusterVerifier(ray, cluster, verifier) as there:
        yield there


def _chunks(jobs: Sequence[Job], shards: int) -> Iterator[Sequence[Job]]:
    size = max(1, min(CHUNK, math.ceil(len(jobs) / shards)))
    for start in range(0, len(jobs), size):
        yield jobs[start : start + size]


def _weakest(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return for each layer True where it holds on every node, else what one of them said."""
    names = dict.fromkeys(name for isolation in found for name in isolation)
    return {
        name: next((i.get(name) for i in found if i.get(name) is not True), True) for name in names
    }
