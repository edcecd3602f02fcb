"""A Ray cluster, connected to or refused, and the shards of work on it; Ray is imported late."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from maxatk.check import require
from maxatk.errors import InvalidValueError, MissingDependencyError, StageError

RESTARTS = 20
"""How often Ray starts a shard again, and repeats a chunk, before the run is given up."""

_CONNECT_S = 5.0
_START_S = 300.0


@dataclasses.dataclass(frozen=True)
class ClusterSettings:
    """A Ray cluster to work on, shard by shard; without an address there is none.

    Args:
        address: auto (the cluster of this machine), local (a new one on this machine) or
            HOST:PORT of a head node.
        shards: Parts of the work, which Ray spreads over the nodes; each has a verifier, and a
            model where samples are drawn.
        gpus_per_shard: GPUs of each of them.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    address: str | None = None
    shards: int = 1
    gpus_per_shard: float = 0.0

    def __post_init__(self) -> None:
        require(self.shards >= 1, "cluster.shards", "1 or more", self.shards)
        gpus = self.gpus_per_shard
        require(gpus >= 0, "cluster.gpus_per_shard", "0 or more", gpus)
        if self._is_remote and not str(self.address).rpartition(":")[2].isdigit():
            raise InvalidValueError(
                f"cluster.address: got {self.address!r}; allowed: auto, local or HOST:PORT"
            )

    @property
    def _is_remote(self) -> bool:
        return self.address not in (None, "auto", "local")

    def check_listening(self) -> None:
        """Raise InvalidValueError where nobody listens on HOST:PORT, sooner than Ray would."""
        if not self._is_remote:
            return
        host, _, port = str(self.address).rpartition(":")
        try:
            socket.create_connection((host, int(port)), _CONNECT_S).close()
        except OSError as error:
            raise InvalidValueError(
                f"cluster.address: nobody listens on {self.address} ({error}); start a head node "
                f"with: ray start --head --port={port}"
            ) from error


@dataclasses.dataclass(frozen=True)
class ShardWork:
    """The node of a shard, and how many samples or programs it has done."""

    node: str
    done: int


@contextlib.contextmanager
def connected(settings: ClusterSettings) -> Iterator[Any]:
    """Yield the module `ray`, connected to the cluster; disconnect at the end.

    Raises MissingDependencyError without Ray, InvalidValueError where no cluster answers or the
    cluster is too small for the shards, all before any work.
    """
    settings.check_listening()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            "cluster: needs the package 'ray': pip install 'maxatk[cluster]'"
        ) from error
    before = ray.is_initialized()
    if not before:
        _connect(ray, settings)
    try:
        _check_room(ray, settings)
        yield ray
    finally:
        if not before:
            ray.shutdown()


def _connect(ray: Any, settings: ClusterSettings) -> None:
    local: dict[str, Any] = {}
    if settings.address == "local":
        local["include_dashboard"] = False
        # By default Ray's workers give way to everything else on the machine, this run included.
        os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(address=settings.address, log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidValueError(
            f"cluster.address: no Ray cluster answers at {settings.address!r} ({error}); start one "
            "with: ray start --head, or use --cluster.address local"
        ) from error


def _check_room(ray: Any, settings: ClusterSettings) -> None:
    has = ray.cluster_resources()
    for kind, each in (("CPU", 1.0), ("GPU", settings.gpus_per_shard)):
        if settings.shards * each > has.get(kind, 0.0):
            raise InvalidValueError(
                f"cluster.shards: {settings.shards} shards of {each:g} {kind} each need "
                f"{settings.shards * each:g} {kind}; the cluster has {has.get(kind, 0.0):g}"
            )


class Shards:
    """Restartable actors, one a shard, spread over the nodes, and the chunks that they work on.

    `said` is what `describe` of each actor has returned, `node` among it. `describe` is given what
    is `told` and raises what is wrong with its node. At most `at_a_time` calls of an actor run at
    once.
    """

    def __init__(self, ray: Any, actor: type, settings: ClusterSettings, *, at_a_time: int) -> None:
        self._ray, self._settings = ray, settings
        self._remote = ray.remote(actor).options(
            num_cpus=1,
            num_gpus=settings.gpus_per_shard,
            max_restarts=RESTARTS,
            max_task_retries=RESTARTS,
            max_concurrency=at_a_time,
            scheduling_strategy="SPREAD",
        )
        self.actors: list[Any] = []
        self.said: list[dict[str, Any]] = []
        self._done: list[int] = []

    def start(self, *arguments: Any, told: Sequence[Any] = ()) -> None:
        """Start the actors; Ray keeps only small `arguments` for one that it starts again.

        Raises the first error of an actor, StageError where one does not start.
        """
        ray, shards = self._ray, self._settings.shards
        self.actors = [self._remote.remote(*arguments) for _ in range(shards)]
        waiting = [one.describe.remote(*told) for one in self.actors]
        done, missing = ray.wait(waiting, num_returns=len(waiting), timeout=_START_S)
        for one in done:  # an error says more than what is missing
            self._result_of(one, what="a shard")
        if missing:
            raise StageError(
                f"cluster: {len(missing)} of {shards} shards did not start within "
                f"{_START_S:.0f} s; ray status shows what the cluster waits for"
            )
        self.said = [ray.get(one) for one in waiting]
        self._done = [0] * shards

    def check_same(self, **expected: Any) -> None:
        """Raise InvalidValueError naming a node whose shard said something else than `expected`."""
        for said in self.said:
            for name, value in expected.items():
                if said[name] != value:
                    raise InvalidValueError(
                        f"cluster: the node {said['node']} has another {name} than the others or "
                        f"this one: {said[name]!r} instead of {value!r}"
                    )

    def work(self) -> list[ShardWork]:
        """Return what each shard has done so far."""
        pairs = zip(self.said, self._done, strict=True)
        return [ShardWork(str(said["node"]), done) for said, done in pairs]

    def stream(
        self,
        chunks: Iterable[Any],
        call: Callable[[Any, Any], Any],
        *,
        ahead: int,
        window: float = math.inf,
    ) -> Iterator[tuple[int, Any, Sequence[Any]]]:
        """Yield (number, chunk, result) as chunks are done.

        `call` sends a chunk to an actor and returns the reference of the result, which has one
        entry for each piece of work. An actor has `ahead` chunks at a time, so that it does not
        wait for this process. From the first chunk that is not done, `window` are begun at most.
        Raises what a call has raised, StageError where an actor died again and again.
        """
        numbered = enumerate(chunks)
        idle = collections.deque([*range(len(self.actors))] * ahead)
        waiting: dict[Any, tuple[int, int, Any]] = {}
        begun = 0
        while True:
            first = min((number for _, number, _ in waiting.values()), default=begun)
            while idle and begun - first < window and (one := next(numbered, None)) is not None:
                shard, (number, chunk) = idle.popleft(), one
                waiting[call(self.actors[shard], chunk)] = shard, number, chunk
                begun += 1
            if not waiting:
                return
            (done, *_), _ = self._ray.wait(list(waiting))
            shard, number, chunk = waiting.pop(done)
            idle.append(shard)
            result = self._result_of(done, what=f"chunk {number}")
            self._done[shard] += len(result)
            yield number, chunk, result

    def _result_of(self, reference: Any, *, what: str) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayActorError as error:
            raise StageError(
                f"cluster: {what} was given up after {RESTARTS} restarts of its shard ({error}); "
                "the same command resumes"
            ) from error

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            self._ray.kill(actor)
        self.actors = []


def node_of_shard() -> dict[str, str]:
    """Return, within an actor, the name and address of its node, and Ray's id of it."""
    import ray

    return {
        "node": f"{socket.gethostname()} ({ray.util.get_node_ip_address()})",
        "node_id": ray.get_runtime_context().get_node_id(),
    }
