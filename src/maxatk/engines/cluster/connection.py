"""Connect to a Ray cluster and start one actor a shard, or say why that cannot be."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxatk.engines.cluster.settings import ClusterSettings
from maxatk.errors import InvalidValueError, MissingDependencyError, StageError

RESTARTS = 20
"""How often Ray starts a shard again, and repeats a chunk, before the run is given up."""

_START_S = 300.0


@dataclasses.dataclass(frozen=True)
class ShardWork:
    """The node of a shard, and how many samples or programs it has done."""

    node: str
    done: int


def work_of(shards: Sequence[Mapping[str, Any]], done: Sequence[int]) -> list[ShardWork]:
    """Return the work of shards, by what they said of themselves at the start."""
    return [ShardWork(str(shard["node"]), count) for shard, count in zip(shards, done, strict=True)]


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
    local: dict[str, Any] = {"include_dashboard": False} if settings.address == "local" else {}
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


def start_actors(
    ray: Any,
    actor: type,
    settings: ClusterSettings,
    *arguments: Any,
    at_a_time: int,
    told: Sequence[Any] = (),
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return one restartable actor a shard, spread over the nodes, and what each says of itself.

    `actor` has a method `describe`, which is given what is `told` and raises what is wrong with its
    node; `at_a_time` calls of an actor run at once. Its `arguments` must be small: Ray does not
    keep large ones for an actor that it starts again. Raises the first such error, StageError where
    a shard does not start.
    """
    remote = ray.remote(actor).options(
        num_cpus=1,
        num_gpus=settings.gpus_per_shard,
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
        max_concurrency=at_a_time,
        scheduling_strategy="SPREAD",
    )
    shards = [remote.remote(*arguments) for _ in range(settings.shards)]
    waiting = [shard.describe.remote(*told) for shard in shards]
    done, missing = ray.wait(waiting, num_returns=len(waiting), timeout=_START_S)
    for one in done:  # an error says more than what is missing
        result_of(ray, one, what="a shard")
    if missing:
        raise StageError(
            f"cluster: {len(missing)} of {settings.shards} shards did not start within "
            f"{_START_S:.0f} s; ray status shows what the cluster waits for"
        )
    return shards, [ray.get(one) for one in waiting]


def result_of(ray: Any, reference: Any, *, what: str) -> Any:
    """Return the result of a call of an actor.

    Raises what the call has raised, StageError where the actor died again and again.
    """
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayActorError as error:
        raise StageError(
            f"cluster: {what} was given up after {RESTARTS} restarts of its shard ({error}); the "
            "same command resumes"
        ) from error
