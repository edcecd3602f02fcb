"""The ASGI application: who may ask what, and how a request becomes an answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import contextlib
import hmac
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from maxatk.errors import DataError, InvalidValueError, SandboxError
from maxatk.jsonl import json_object
from maxatk.serve import run_code, verify
from maxatk.serve.admission import Admission, ClientGoneError
from maxatk.serve.answers import ENDING, OK, TRY_AGAIN, Answer, RefusedError, answer, refusal
from maxatk.serve.bodies import Incoming, Message, Receive, body_of
from maxatk.serve.work import Work, carry_out
from maxatk.verifier import Verifier
from maxatk.verifier.limits import Limits
from maxatk.verifier.wire import CAPPED

Send = Callable[[Message], Awaitable[None]]

_SLOTS_PER_WORKER = 2  # so that a worker has the next request while an answer is on its way
_INLINE = 1 << 16  # bytes of a body that is read at once; a longer one would stop all others
_BEAT_SECONDS = 15.0  # between the bytes that tell a waiting client that its programs still run

# HEAD is for a probe that wants the status alone: the server sends no body.
_METHODS = {"/verify": ("POST",), "/run_code": ("POST",), "/health": ("GET", "HEAD")}

_log = logging.getLogger(__name__)


class Application:
    """Answers `/verify`, `/run_code` and `/health`; each request counts against the `most` limits.

    `token` is what clients must send, "" for none.
    """

    def __init__(self, verifier: Verifier, *, most: Limits, queue: int, token: str) -> None:
        self._verifier = verifier
        self._most = most
        self._token = token.encode()
        slots = _SLOTS_PER_WORKER * verifier.workers
        self.admission = Admission(slots=slots, most_requests=queue)
        self._threads = concurrent.futures.ThreadPoolExecutor(slots, "maxatk-serve")
        self._readers = concurrent.futures.ThreadPoolExecutor(2, "maxatk-read")

    def close(self) -> None:
        """End the threads; to be called when the verifier is closed and nobody asks any more."""
        self._threads.shutdown()
        self._readers.shutdown()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        reply = _Reply(send)
        incoming = Incoming(receive)
        try:
            result = await self._answer(scope, incoming, reply)
        except ClientGoneError:
            return
        except RefusedError as error:
            await reply.say(error.answer)
            await incoming.drop_rest()
            await reply.end()
            return
        except (InvalidValueError, DataError) as error:
            result = refusal(422, str(error))
        except asyncio.CancelledError:  # by a second Ctrl-C, which waits for nothing
            result = refusal(TRY_AGAIN, ENDING)
        except SandboxError:  # the verifier was closed meanwhile
            result = refusal(TRY_AGAIN, "the sandbox failed; try again")
        except Exception:  # a defect: the log has its traceback, and the client must not
            _log.exception("a request failed")
            result = refusal(500, "the server failed")
        await reply.finish(result)

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, reply: _Reply) -> Answer:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        methods = _METHODS.get(scope["path"])
        if methods is None:
            raise RefusedError(404, f"no such path; there are {', '.join(_METHODS)}")
        if scope["method"] not in methods:
            raise RefusedError(405, f"the method must be {' or '.join(methods)}")
        self._authorize(headers)
        if scope["path"] == "/health":
            return self._health()
        async with body_of(receive, headers, self.admission) as body:
            with self.admission.request():
                return await self._carry_out(scope["path"], body, receive, reply)

    def _authorize(self, headers: Mapping[bytes, bytes]) -> None:
        if b"origin" in headers:  # a page of another site that is open in a browser here
            raise RefusedError(403, "pages of browsers may not ask")
        kind, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":  # what clients make of http://user:token@host
            with contextlib.suppress(binascii.Error):
                credentials = base64.b64decode(credentials).partition(b":")[2]
        if self._token and not hmac.compare_digest(credentials.strip(), self._token):
            raise RefusedError(401, "a token is needed")

    def _health(self) -> Answer:
        content = {
            "status": "ok",
            "workers": self._verifier.workers,
            "requests": self.admission.requests,
            "limits": {name: getattr(self._most, name) for name in CAPPED},
            # Whether a layer holds, and not why: a reason names paths.
            "isolation": {name: why is True for name, why in self._verifier.isolation.items()},
        }
        return answer(OK, content)

    async def _carry_out(self, path: str, body: bytes, receive: Receive, reply: _Reply) -> Answer:
        loop = asyncio.get_running_loop()
        if len(body) < _INLINE:
            work = self._read(path, body)
        else:
            work = await loop.run_in_executor(self._readers, self._read, path, body)
        if isinstance(work, Answer):
            return work
        gone: asyncio.Future[Any] = asyncio.ensure_future(_client_gone(receive))
        try:
            await self.admission.turn(gone, wait=work.wait)
            return await self._worked_on(path, work, gone, reply)
        finally:
            gone.cancel()

    async def _worked_on(
        self, path: str, work: Work, gone: asyncio.Future[Any], reply: _Reply
    ) -> Answer:
        """Return the answer to a request that has its turn, which ends with its programs.

        Raises ClientGoneError once nobody waits for it, RefusedError where the server ends.
        """
        given_up = threading.Event()
        running = asyncio.get_running_loop().run_in_executor(
            self._threads, self._done, path, work, given_up
        )
        running.add_done_callback(lambda _: self.admission.end_turn())
        closed: asyncio.Future[Any] = asyncio.ensure_future(self.admission.closed.wait())
        watched: set[asyncio.Future[Any]] = {running, closed, gone}
        try:
            while not running.done() and not closed.done():
                await asyncio.wait(
                    watched, timeout=_BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    # Its programs that run are waited for, because they hold the turn.
                    given_up.set()
                    watched.discard(gone)
                elif not running.done() and not closed.done() and path == "/verify":
                    await reply.beat()
        finally:
            given_up.set()
            closed.cancel()
        if gone.done():
            raise ClientGoneError
        if not running.done():
            raise RefusedError(TRY_AGAIN, ENDING)
        return running.result()

    def _read(self, path: str, body: bytes) -> Work | Answer:
        try:
            row = json_object(body)
        except ValueError as error:  # a DataError, or a number that Python does not read
            raise RefusedError(400, f"the body: {error}") from error
        reading = verify.read_work if path == "/verify" else run_code.read_work
        return reading(row, self._most)

    def _done(self, path: str, work: Work, given_up: threading.Event) -> Answer:
        """Return the answer to a request, in a thread; empty once the client has given up."""
        verdicts = carry_out(work, self._verifier, given_up)
        if given_up.is_set():
            return Answer(OK, b"")
        if path == "/verify":
            return verify.answer_of(verdicts, self._most)
        return run_code.answer_of(work, verdicts)


class _Reply:
    """The way back to a client, which may be told more than once that it has to wait."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = False

    async def beat(self) -> None:
        """Send a space, which JSON may begin with: a client sees that the server lives."""
        await self._begin(OK, [])
        await self._send({"type": "http.response.body", "body": b" ", "more_body": True})

    async def finish(self, result: Answer) -> None:
        """Send the answer, the last thing that is sent."""
        await self.say(result)
        await self.end()

    async def say(self, result: Answer) -> None:
        """Send the answer; behind a beat its status can no longer change."""
        length = str(len(result.data)).encode()
        await self._begin(result.status, [(b"content-length", length)])
        await self._send({"type": "http.response.body", "body": result.data, "more_body": True})

    async def end(self) -> None:
        """Say that the answer has ended; the server then reads no more of the request."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        headers = [(b"content-type", b"application/json"), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
