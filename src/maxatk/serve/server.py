"""Run the application on uvicorn, with bounds on what a connection may take."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

from maxatk.check import needing
from maxatk.errors import InvalidValueError
from maxatk.serve.application import Application
from maxatk.serve.settings import ServeSettings

with needing("maxatk serve needs uvicorn: pip install 'maxatk[serve]'"):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_IDLE_SECONDS = 60.0  # of a connection without a whole request line and headers
_WRITE_SECONDS = 120.0  # that a client may take to read what was sent to it
_LOOK_SECONDS = 5.0
_END_SECONDS = 20  # until connections are cut when the server ends


def serve(settings: ServeSettings, *, ready: Callable[[str], object]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` is called with the address once it listens.

    Raises InvalidValueError where the address cannot be used, and as `Verifier`.
    """
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(_listening(settings.host, settings.port))
        with settings.verifier.open() as verifier:
            application = Application(
                verifier,
                most=settings.verifier.limits(),
                queue=settings.queue,
                token=settings.token,
            )
            opened.callback(application.close)
            _allow_files()
            host, port = listening.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            ready(f"http://{name}:{port}")
            _Server(application).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises InvalidValueError where the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = str(error.strerror).partition(" (while ")[0]  # what follows is the address again
    except UnicodeError as error:  # a name with an empty part, or with a long one
        reason = str(error)
    raise InvalidValueError(
        f"host, port: cannot listen on {host!r}, port {port}: {reason}; name an address of this "
        "machine, and a port that no other server has, or 0 for a free one"
    )


class _Server(uvicorn.Server):
    """A server that tells the application first when it ends, and then returns."""

    def __init__(self, application: Application) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=_Connection,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=int(_IDLE_SECONDS),
                timeout_graceful_shutdown=_END_SECONDS,
            )
        )
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse what waits, and give what runs some seconds."""
        self._application.admission.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at SIGTERM and SIGINT, which uvicorn would raise again with the verifier open."""
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Connection(H11Protocol):
    """A connection that is cut where its client is slow to ask or slow to read."""

    def connection_made(self, transport: Any) -> None:
        """Begin to watch it; one too many is cut."""
        super().connection_made(transport)
        self._waits_since = self.loop.time()  # for a request, or for the client to read
        self._was_writing = False
        self._look = self.loop.call_later(_LOOK_SECONDS, self._cut_if_slow)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End watching it."""
        self._look.cancel()
        super().connection_lost(exc)

    def _cut_if_slow(self) -> None:
        now = self.loop.time()
        is_writing = self.transport.get_write_buffer_size() > 0
        is_asked = self.cycle is not None and not self.cycle.response_complete
        if is_writing != self._was_writing or (is_asked and not is_writing):
            self._waits_since = now
        self._was_writing = is_writing
        if now - self._waits_since > (_WRITE_SECONDS if is_writing else _IDLE_SECONDS):
            self.transport.abort()
        else:
            self._look = self.loop.call_later(_LOOK_SECONDS, self._cut_if_slow)


def _allow_files() -> None:
    """Allow as many open files as this process may have: a connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
