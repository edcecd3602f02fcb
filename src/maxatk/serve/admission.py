"""How many requests, and how many bytes of them, a server holds, and how many it works on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from maxatk.serve.answers import ENDING, TRY_AGAIN, RefusedError

_MOST_BYTES = 512 << 20  # of all bodies that are held
_END_SECONDS = 10.0  # that requests which are worked on have when the server ends


class Admission:
    """Counts what is held: `most_requests` at a time, of which `slots` are worked on."""

    def __init__(self, *, slots: int, most_requests: int) -> None:
        self._most_requests = most_requests
        self._bytes = 0
        self._slots = asyncio.Semaphore(slots)
        self.requests = 0
        self.closing = asyncio.Event()  # no request is begun any more
        self.closed = asyncio.Event()  # none is worked on any more

    def close(self) -> None:
        """Refuse requests from now on, also those that wait, and soon those that run."""
        self.closing.set()
        asyncio.get_running_loop().call_later(_END_SECONDS, self.closed.set)

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Hold one request inside the block; raises RefusedError where there is no room."""
        if self.requests >= self._most_requests:
            raise RefusedError(TRY_AGAIN, "the queue is full; try again")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def take(self, count: int) -> bool:
        """Count bytes that are held from now on; return whether there is room for them."""
        has_room = self._bytes + count <= _MOST_BYTES
        if has_room:
            self._bytes += count
        return has_room

    def give_back(self, count: int) -> None:
        """Count bytes that are no longer held."""
        self._bytes -= count

    async def turn(self, gone: asyncio.Future[Any], *, wait: float) -> None:
        """Wait for a slot, which `end_turn` gives back.

        Raises RefusedError where that takes more than `wait` seconds or the server ends meanwhile,
        and ClientGoneError once the client is `gone`: a request nobody waits for is not run.
        """
        turn: asyncio.Future[Any] = asyncio.ensure_future(self._slots.acquire())
        closing: asyncio.Future[Any] = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait(
                {turn, gone, closing}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
            )
            if gone.done():
                raise ClientGoneError
            if closing.done():
                raise RefusedError(TRY_AGAIN, ENDING)
            if not turn.done():
                raise RefusedError(TRY_AGAIN, "the request waited too long; try again")
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.end_turn()
            turn.cancel()
            raise
        finally:
            closing.cancel()

    def end_turn(self) -> None:
        """Give a slot back."""
        self._slots.release()


class ClientGoneError(Exception):
    """The client has closed its connection: no answer is needed."""
