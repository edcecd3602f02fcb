"""A verifier of this process or of a cluster, as the settings say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from maxatk.engines.cluster.connection import connected
from maxatk.engines.cluster.settings import ClusterSettings
from maxatk.engines.cluster.verifying import ClusterVerifier
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
