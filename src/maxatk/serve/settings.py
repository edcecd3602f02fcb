"""What a server of the verifier is told: where it listens, what it holds, who may ask."""

from __future__ import annotations

import dataclasses
import ipaddress

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError
from maxatk.python_numbers import use_python_numbers
from maxatk.verifier.server_address import TOKEN_VARIABLE, token_here
from maxatk.verifier.settings import VerifierSettings

_SHORTEST_TOKEN = 16  # characters


@dataclasses.dataclass(frozen=True)
class ServeSettings:
    """Settings of `maxatk serve`; raises InvalidValueError for values that are not allowed.

    Args:
        host: The address to listen on. One that other machines reach needs a token in the
            environment variable MAXATK_TOKEN.
        port: The port; 0 takes a free one.
        queue: Requests that are held at a time, waiting ones included; others are told to come
            again.
        verifier: Its workers, and the most that a client may ask for; with sandbox, other servers
            that this one passes its programs on to.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    queue: int = 1024
    verifier: VerifierSettings = dataclasses.field(
        default_factory=lambda: VerifierSettings(time_limit=30.0, memory_limit_mb=4096)
    )

    def __post_init__(self) -> None:
        use_python_numbers(self, "queue", "port")
        whole("queue", self.queue, 1)
        whole("port", self.port, 0)
        require(self.port < 1 << 16, "port", "65535 at most", self.port)
        token = self.token
        if token and len(token) < _SHORTEST_TOKEN:
            raise InvalidValueError(
                f"{TOKEN_VARIABLE}: must have {_SHORTEST_TOKEN} characters or more, "
                f"got {len(token)}"
            )
        if not token and not _is_loopback(self.host):
            raise InvalidValueError(
                f"host: must be 127.0.0.1 without a token, got {self.host!r}; set {TOKEN_VARIABLE} "
                "to one that the clients send"
            )

    @property
    def token(self) -> str:
        """The token that clients have to send; "" where none is needed. Raises as `token_here`."""
        return token_here()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
