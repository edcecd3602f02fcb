"""Read the body of a request: bounded in size and in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from maxatk.serve.admission import Admission, ClientGoneError
from maxatk.serve.answers import TRY_AGAIN, RefusedError
from maxatk.verifier.wire import MOST_BODY

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_SECONDS = 60.0  # that a body may take, however it comes
_MOST_DROPPED = 8 * MOST_BODY  # bytes that still come of a request that is answered already


class Incoming:
    """What comes of a request: the `receive` of ASGI, which knows whether the body has ended."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._has_ended = False

    async def __call__(self) -> Message:
        """Return the next message."""
        message = await self._receive()
        self._has_ended = not message.get("more_body", False)
        return message

    async def drop_rest(self) -> None:
        """Read what still comes of a body and drop it, within bounds.

        A client that sends all before it reads would otherwise see a broken connection in place of
        its answer.
        """
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._drop_rest(), _SECONDS)

    async def _drop_rest(self) -> None:
        count = 0
        while not self._has_ended and count <= _MOST_DROPPED:
            message = await self()
            count += len(message.get("body", b""))


@contextlib.asynccontextmanager
async def body_of(
    receive: Receive, headers: dict[bytes, bytes], admission: Admission
) -> AsyncIterator[bytes]:
    """Yield the body, whose bytes are held until the end of the block.

    Raises RefusedError for one that is too long, too slow, or has no room, ClientGoneError where
    the client leaves.
    """
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MOST_BODY:
        raise RefusedError(413, f"the body must have {MOST_BODY} bytes at most")
    body = _Body(admission)
    try:
        try:
            await asyncio.wait_for(body.read(receive), _SECONDS)
        except asyncio.TimeoutError as error:
            raise RefusedError(408, f"the body must come within {_SECONDS:.0f} s") from error
        yield bytes(body.data)
    finally:
        admission.give_back(body.held)


class _Body:
    """The bytes that have come so far."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.data = bytearray()
        self.held = 0

    async def read(self, receive: Receive) -> None:
        count = 0
        has_room = True
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientGoneError
            chunk = message.get("body", b"")
            count += len(chunk)
            if count > MOST_BODY:
                raise RefusedError(413, f"the body must have {MOST_BODY} bytes at most")
            has_room = has_room and self._admission.take(len(chunk))
            if has_room:
                self.held += len(chunk)
                self.data += chunk
            if not message.get("more_body", False):
                break
        # Only now: a client that is answered while it still sends sees a broken connection.
        if not has_room:
            raise RefusedError(TRY_AGAIN, "the server holds too much; try again")
