"""A server that runs programs: its address, how it is reached, and what it says of itself."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeGuard

from maxatk.check import is_finite, is_whole, require
from maxatk.errors import InvalidValueError, SandboxError

TOKEN_VARIABLE = "MAXATK_TOKEN"
"""The environment variable with the token of `maxatk serve`, for the server and its clients."""

ALLOWED = "addresses such as http://host:8080"
CONNECT_SECONDS = 10.0
MOST_ANSWER = 1 << 28  # bytes; a longer answer is none
_LIMITS = ("time_limit", "memory_limit")
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # s, s, probes


def token_here() -> str:
    """Return the token of the environment, "" without one; raises InvalidValueError for no token.

    A header carries it, and so takes no other characters.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InvalidValueError(
            f"{TOKEN_VARIABLE}: must have letters, digits and other signs of ASCII without blanks, "
            f"got {len(token)} characters, of which one is none of those"
        )
    return token


class ServerAddress:
    """A server: how it is reached, since when it has not been, and what it allows.

    `workers` and `limits`, CPU seconds and bytes of a test, are known once it has answered.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
            (parts.hostname or "").encode("idna")
        except ValueError as error:  # a port above 65535, half of brackets, a host like `a..b`
            shown_url = url.rpartition("@")[2]  # without the token
            raise InvalidValueError(
                f"sandbox: must be {ALLOWED}, got {shown_url!r:.80} ({error})"
            ) from error
        is_plain = url.isascii() and url.isprintable() and " " not in url
        has_form = parts.scheme in ("http", "https") and parts.hostname and not parts.query
        require(bool(is_plain and has_form), "sandbox", ALLOWED, _without_user(url))
        assert parts.hostname is not None
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.secure else 80)
        self.path = parts.path.rstrip("/")
        self.name = _without_user(url)
        self.rests_until = 0.0  # of the monotonic clock
        self.workers = 0
        self.limits: Mapping[str, float] = {}
        token = token_here()
        self.headers = {"Content-Type": "application/json"}
        if parts.password:
            pair = f"{parts.username or ''}:{urllib.parse.unquote(parts.password)}"
            self.headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        elif token:
            self.headers["Authorization"] = f"Bearer {token}"

    def connect(self, seconds: float) -> http.client.HTTPConnection:
        """Return a connection that was made within so many seconds; raises OSError."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=seconds)
        connection.connect()
        # A machine that is gone says nothing: the kernel finds out by itself.
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):  # not everywhere, and a client need not be on Linux
                connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return connection

    def health(self) -> dict[str, Any]:
        """Return what the server says of itself; raises SandboxError where it does not answer."""
        try:
            with contextlib.closing(self.connect(CONNECT_SECONDS)) as connection:
                connection.request("GET", f"{self.path}/health", headers=self.headers)
                answer = connection.getresponse()
                body = answer.read(MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise SandboxError(f"{self.name}: the server cannot be reached: {error}") from error
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            raise InvalidValueError(
                f"sandbox: {self.name} needs a token: set {TOKEN_VARIABLE} to that of the server"
            )
        try:
            health: Any = json.loads(body)
        except ValueError:
            health = None
        if not _is_health(health):
            raise SandboxError(f"{self.name}: is no `maxatk serve` (status {answer.status})")
        self.workers = health["workers"]
        self.limits = {name: health["limits"][name] for name in _LIMITS}
        return dict(health)

    def refuse_more(self, asked: Mapping[str, float | None]) -> None:
        """Raise InvalidValueError for a limit above that of the server, which would cut it.

        None is the verifier's own.
        """
        for name, most in self.limits.items():
            value = asked[name]
            if value is not None and value > most:
                raise InvalidValueError(
                    f"{name}: must be {most} at most, which {self.name} allows, got {value}"
                )


def _is_health(health: Any) -> TypeGuard[Mapping[str, Any]]:
    """Say whether an object is what `maxatk serve` says of itself."""
    if not isinstance(health, Mapping) or not isinstance(health.get("isolation"), Mapping):
        return False
    limits = health.get("limits")
    are_limits = isinstance(limits, Mapping) and all(
        is_finite(limits.get(name)) for name in _LIMITS
    )
    return are_limits and is_whole(health.get("workers"), 1)


def _without_user(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
