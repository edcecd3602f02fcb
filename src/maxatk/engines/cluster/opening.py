"""A verifier and a sampler of this process or of a cluster, as the settings say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from maxatk.engines.cluster.connection import ShardWork, connected
from maxatk.engines.cluster.sampling import ClusterSampler
from maxatk.engines.cluster.settings import ClusterSettings
from maxatk.engines.cluster.verifying import ClusterVerifier
from maxatk.evaluation.backends import Backend, ModelSettings
from maxatk.verifier import Verifier, VerifierSettings


@contextlib.contextmanager
def open_verifier(verifier: VerifierSettings, cluster: ClusterSettings) -> Iterator[Verifier]:
    """Yield a verifier with these settings; on a cluster, `verifier.workers` is that of a shard.

    Raises what `connected`, `ClusterVerifier` and `Verifier` raise.
    """
    if cluster.address is None:
        with verifier.open() as here:
            yield here
        return
    with connected(cluster) as ray, ClusterVerifier(ray, cluster, verifier) as there:
        yield there


@contextlib.contextmanager
def open_sampler(
    model: str | Path, settings: ModelSettings, cluster: ClusterSettings
) -> Iterator[Backend | None]:
    """Yield a backend whose models are on the cluster; None without one.

    Raises what `connected` raises; the models are loaded by the backend's `check`.
    """
    if cluster.address is None:
        yield None
        return
    with connected(cluster) as ray, ClusterSampler(ray, cluster, str(model), settings) as there:
        yield there


def work_by_part(
    sampler: Backend | None, verifier: Verifier
) -> Callable[[str], Sequence[ShardWork]]:
    """Return a function from "samples" or "scores" to the work of the shards that do them.

    There are none where the work is done in this process.
    """
    parts = {"samples": sampler, "scores": verifier}

    def work(part: str) -> Sequence[ShardWork]:
        doer = parts[part]
        return doer.work() if isinstance(doer, (ClusterSampler, ClusterVerifier)) else ()

    return work
