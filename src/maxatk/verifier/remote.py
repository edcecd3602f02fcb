"""Workers whose programs run elsewhere: on machines with `maxatk serve`, several of them."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future

from maxatk.check import require
from maxatk.errors import DataError, InvalidValueError, SandboxError
from maxatk.records import Outcome, Problem, Verdict
from maxatk.verifier import outcomes, wire
from maxatk.verifier.jobs import Job, problem_job
from maxatk.verifier.limits import Limits
from maxatk.verifier.sandbox_process import Isolation
from maxatk.verifier.server_address import ALLOWED, CONNECT_SECONDS, MOST_ANSWER, ServerAddress
from maxatk.verifier.tasks import Tasks, answer_tasks

_QUEUE_SECONDS = 30.0  # that a program may wait in the queue of one server
_SILENT_SECONDS = 90.0  # without a byte of a server, which sends one now and then; see `serve`
_PATIENCE_SECONDS = 600.0  # until a program that no server takes has no verdict
_REST_SECONDS = 5.0  # that a server which did not answer is left alone
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between attempts, the last one again and again
_MOST_FAILURES = 3  # of servers, one each where there are more, until a program has no verdict
_REFUSALS = (400, 401, 403, 404, 405, 413, 422)  # what other servers would say as well
_PASSING = (408, 425, 429, 502, 503, 504)  # of a server that is full, or of a proxy without it
_MOST_WORKERS = 256
_WIDEST = 12  # bytes of a character in JSON


class _NotNowError(Exception):
    """A server is not there or has no room: it may give a verdict later."""


class _FailedError(Exception):
    """A server has failed, or is something else than `maxatk serve`: so it may for ever."""


class RemoteWorker:
    """A thread that sends one program after the other to a server, or to another that answers.

    A program is sent again for as long as `_PATIENCE_SECONDS` where no server answers or has room,
    because machines start again and queues empty. Where servers fail, as by the status 500, by an
    answer that is no verdict, or by a sandbox that dies, it is sent to each of them, and
    `_MOST_FAILURES` times at least: the same program would make them fail for ever. It is not sent
    again where a server refuses it. `started` is the isolation on the server.
    """

    def __init__(
        self, index: int, tasks: Tasks, addresses: Sequence[ServerAddress], isolation: Isolation
    ) -> None:
        self._tasks = tasks
        self._addresses = addresses
        self._favourite = index % len(addresses)
        self._stopping = threading.Event()
        self._connections: dict[ServerAddress, http.client.HTTPConnection] = {}
        self.started: Future[Isolation] = Future()
        self.started.set_result(isolation)
        self.thread = threading.Thread(target=self._run, name=f"maxatk-{index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Make the thread end soon, whatever it is doing."""
        self._stopping.set()
        for connection in list(self._connections.values()):
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        answer_tasks(self._tasks, self._verdict)
        for address in list(self._connections):
            self._drop(address)

    def _verdict(self, job: Job, limits: Limits) -> Verdict:
        """Return the verdict of a server; infra_error where none has one within the patience."""
        body = wire.request_body(job, limits, wait=_QUEUE_SECONDS)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        reason = "the verifier was closed"
        failures_left = max(_MOST_FAILURES, len(self._addresses))
        attempt = 0
        while not self._stopping.is_set() and failures_left and time.monotonic() < deadline:
            address = self._next_address()
            try:
                return self._ask(address, body, job, limits)
            except _NotNowError as error:
                reason = f"{address.name}: {error}"
            except _FailedError as error:
                reason = f"{address.name}: {error}"
                failures_left -= 1
            if failures_left:
                self._stopping.wait(_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1
            self._favourite += 1
        return outcomes.uniform(job, Outcome.INFRA_ERROR, reason)

    def _next_address(self) -> ServerAddress:
        """Return the favourite, or the next that has answered lately; the favourite if none has."""
        now = time.monotonic()
        count = len(self._addresses)
        in_turn = [self._addresses[(self._favourite + i) % count] for i in range(count)]
        return next((address for address in in_turn if address.rests_until <= now), in_turn[0])

    def _ask(self, address: ServerAddress, body: bytes, job: Job, limits: Limits) -> Verdict:
        """Return the verdict of one server; raises _NotNowError or _FailedError where it has none.

        Raises SandboxError where it refuses the request, and where it has cut the limits: the
        verdict would be another.
        """
        status, data = self._posted(address, body)
        if status != http.HTTPStatus.OK:
            text = data[:200].decode("utf-8", "replace")
            if status in _REFUSALS:
                raise SandboxError(f"{address.name} refuses the program: status {status}: {text}")
            if status in _PASSING:
                raise _NotNowError(f"status {status}: {text}")
            raise _FailedError(f"status {status}: {text}")
        try:
            answer = json.loads(data)
            (row,) = answer["verdicts"]
            verdict = wire.verdict_from_json(row, job)
            applied = {name: float(answer["limits"][name]) for name in wire.CAPPED}
        except (ValueError, KeyError, TypeError, DataError) as error:
            raise _FailedError(f"no verdict in the answer: {error}") from error
        if not verdict.scorable:
            raise _FailedError("the server could not verify the program")
        for name, most in applied.items():
            if most < getattr(limits, name):
                raise SandboxError(f"{address.name} allows a {name} of {most} at most")
        return verdict

    def _posted(self, address: ServerAddress, body: bytes) -> tuple[int, bytes]:
        """Return status and body of a server's answer; raises _NotNowError without one."""
        is_fresh = address not in self._connections
        try:
            if is_fresh:
                self._connections[address] = address.connect(CONNECT_SECONDS)
            connection = self._connections[address]
            connection.sock.settimeout(_SILENT_SECONDS)
            connection.request("POST", f"{address.path}/verify", body, address.headers)
            answer = connection.getresponse()
            data = answer.read(MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            self._drop(address)
            if not is_fresh and not self._stopping.is_set():
                return self._posted(address, body)  # it was idle for so long that it was closed
            address.rests_until = time.monotonic() + _REST_SECONDS
            raise _NotNowError(f"the server does not answer: {error!r}") from error
        if answer.will_close or not answer.isclosed():
            self._drop(address)
        return answer.status, data

    def _drop(self, address: ServerAddress) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


def addresses(sandbox: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of servers, of which a setting may name one alone.

    Raises InvalidValueError for other types; `ServerAddress` looks at each of them.
    """
    urls = (sandbox,) if isinstance(sandbox, str) else sandbox
    are_texts = isinstance(urls, Sequence) and all(isinstance(url, str) for url in urls)
    require(are_texts, "sandbox", ALLOWED, sandbox)
    return tuple(urls)


def start_workers(
    servers: Sequence[ServerAddress], tasks: Tasks, *, count: int | None, limits: Limits
) -> list[RemoteWorker]:
    """Return workers for servers, as many as those have, or `count`.

    Servers that do not answer now are used once they do. Raises InvalidValueError where a server
    allows less than `limits`, SandboxError where none answers.
    """
    asked = {"time_limit": limits.time_limit, "memory_limit": limits.memory_limit}
    health = None
    silent = []
    for address in servers:
        try:
            health = address.health()
        except SandboxError as error:
            silent.append(str(error))
            continue
        address.refuse_more(asked)
    if health is None:
        raise SandboxError("; ".join(silent))
    if silent:
        warnings.warn(f"servers that are not used yet: {'; '.join(silent)}", stacklevel=4)
    # One more a server, so that its cores have the next program when one ends.
    most = max(address.workers for address in servers)
    wanted = sum((address.workers or most) + 1 for address in servers)
    number = min(wanted, _MOST_WORKERS) if count is None else count
    return [RemoteWorker(i, tasks, servers, health["isolation"]) for i in range(number)]


def refuse_problem(problem: Problem, servers: Sequence[ServerAddress]) -> None:
    """Raise InvalidValueError for what servers would refuse, or verify within other limits.

    These are tests that are too long to be sent, and limits of its own above those of a server.
    """
    _refuse_long(problem)
    mebibytes = problem.memory_limit_mb
    asked = {
        "time_limit": problem.time_limit_s,
        "memory_limit": None if mebibytes is None else mebibytes * (1 << 20),
    }
    for address in servers:
        try:
            address.refuse_more(asked)
        except InvalidValueError as error:
            raise InvalidValueError(f"Problem {problem.id!r}: {error}") from error


def _refuse_long(problem: Problem) -> None:
    """Raise InvalidValueError for a problem whose tests are too long to be sent to a server."""
    for tests in (problem.tests, problem.visible_tests):
        characters = sum(len(text) for test in tests for text in test.to_json().values())
        if characters * _WIDEST < wire.MOST_BODY // 2:  # the other half is enough for all else
            continue  # as nearly all problems do, whose bytes need not be counted
        job = problem_job("", dataclasses.replace(problem, tests=tests))
        try:
            wire.request_body(job, Limits(), wait=_QUEUE_SECONDS)
        except InvalidValueError as error:
            raise InvalidValueError(f"Problem {problem.id!r}: {error}") from error
