"""Where the cluster is and how much of it is used; Ray is not imported here."""

from __future__ import annotations

import dataclasses
import socket

from maxatk.errors import InvalidValueError

_CONNECT_S = 5.0


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
        if self.shards < 1:
            raise InvalidValueError(f"cluster.shards: must be 1 or more, got {self.shards}")
        if self.gpus_per_shard < 0:
            raise InvalidValueError(
                f"cluster.gpus_per_shard: must be 0 or more, got {self.gpus_per_shard}"
            )
        if self.address in (None, "auto", "local"):
            return
        _, _, port = str(self.address).rpartition(":")
        if not port.isdigit():
            raise InvalidValueError(
                f"cluster.address: got {self.address!r}; allowed: auto, local or HOST:PORT"
            )

    def check_listening(self) -> None:
        """Raise InvalidValueError where nobody listens on HOST:PORT, sooner than Ray would."""
        if self.address in (None, "auto", "local"):
            return
        host, _, port = str(self.address).rpartition(":")
        try:
            socket.create_connection((host, int(port)), _CONNECT_S).close()
        except OSError as error:
            raise InvalidValueError(
                f"cluster.address: nobody listens on {self.address} ({error}); start a head node "
                f"with: ray start --head --port={port}"
            ) from error
