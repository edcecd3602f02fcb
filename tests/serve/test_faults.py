"""`maxatk serve` that is flooded, killed, stopped and asked by slow clients: nothing hangs."""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from maxatk.errors import SandboxError
from maxatk.records import Outcome, TestCase
from maxatk.verifier import Verifier, remote
from processes import family, kill, patience
from serving import HEALTH, answering, ask, served

pytestmark = pytest.mark.long

TESTS = tuple(TestCase(input=f"{i}\n", output=f"{i * i}\n") for i in range(3))
SLOW = "n = int(input())\nfor _ in range(10**6): pass\nprint(n * n)\n"
BUSY = {"code": "import time\nwhile time.process_time() < 2: pass\nprint(1)", "run_timeout": 10}


def jobs(count):
    return [(f"{SLOW}# {i}", TESTS) for i in range(count)]


def rewards(verifier, count):
    return [verdict.reward for verdict in verifier.verify_many(jobs(count))]


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=patience(60))


def request(path, body, *, length=None):
    """Return the bytes of a request, whose body may be shorter than it says."""
    data = json.dumps(body).encode()
    count = len(data) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {count}\r\n\r\n"
    return head.encode() + data


def test_a_server_that_dies_loses_no_verdict():
    with served(workers=1) as first, served(workers=1) as second:
        addresses = (first.url, second.url)
        with Verifier(sandbox=addresses) as verifier, ThreadPoolExecutor(1) as thread:
            verdicts = thread.submit(rewards, verifier, 60)
            time.sleep(0.5)
            first.kill()
            assert verdicts.result(patience(120)) == [1.0] * 60


def test_a_server_that_comes_back_is_used_again(monkeypatch):
    monkeypatch.setattr(remote, "_REST_SECONDS", 0.2)
    with served(workers=1) as first:
        port = first.port
        with Verifier(sandbox=[first.url]) as verifier, ThreadPoolExecutor(1) as thread:
            verdicts = thread.submit(rewards, verifier, 40)
            time.sleep(0.5)
            first.kill()
            time.sleep(0.5)
            with served(workers=1, port=port):
                assert verdicts.result(patience(120)) == [1.0] * 40


def test_programs_without_any_server_have_no_reward(monkeypatch):
    monkeypatch.setattr(remote, "_PATIENCE_SECONDS", 1.0)
    with served(workers=1) as server, Verifier(sandbox=[server.url]) as verifier:
        server.kill()
        verdict = verifier.verify(SLOW, TESTS)
    assert verdict.reward is None
    assert "does not answer" in verdict.tests[0].stderr


GOOD = {"outcome": "passed", "cpu_seconds": 0.1, "wall_seconds": 0.1, "peak_memory": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        [],
        {},
        {"verdicts": []},
        {"verdicts": [5]},
        {"verdicts": [{"tests": [GOOD] * 2}]},
        {"verdicts": [{"tests": [GOOD] * 3}]},
        {"verdicts": [{"tests": [{**GOOD, "outcome": "well"}] * 3}], "limits": {}},
        {"verdicts": [{"tests": [{**GOOD, "cpu_seconds": "1"}] * 3}], "limits": {}},
        {"verdicts": [{"tests": [{**GOOD, "other": 1}] * 3}], "limits": {}},
    ],
)
def test_a_server_that_says_something_else_gives_no_verdict(answer):
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with (
        answering(200, data, health=HEALTH) as (url, requests),
        Verifier(sandbox=[url]) as verifier,
    ):
        verdict = verifier.verify(SLOW, TESTS)
    assert verdict.reward is None
    assert "no verdict in the answer" in verdict.tests[0].stderr
    assert len(requests) == 3


@pytest.mark.parametrize("status", [302, 500, 501, 505])
def test_a_server_that_fails_is_not_asked_for_ever(status):
    with (
        answering(status, b"{}", health=HEALTH) as (url, requests),
        Verifier(sandbox=[url]) as verifier,
    ):
        verdict = verifier.verify(SLOW, TESTS)
    assert verdict.outcome is Outcome.INFRA_ERROR
    assert f"{url}: status {status}" in verdict.tests[0].stderr
    assert len(requests) == 3


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_server_without_room_is_asked_until_the_patience_ends(monkeypatch, status):
    monkeypatch.setattr(remote, "_PATIENCE_SECONDS", 3.0)
    with (
        answering(status, b"{}", health=HEALTH) as (url, requests),
        Verifier(sandbox=[url]) as verifier,
    ):
        assert verifier.verify(SLOW, TESTS).reward is None
    assert len(requests) > 3


def test_servers_that_fail_cost_no_verdict_beside_one_that_works():
    with contextlib.ExitStack() as servers:
        failing = [servers.enter_context(answering(500, b"", health=HEALTH)) for _ in range(4)]
        working = servers.enter_context(served(workers=1))
        addresses = [*(url for url, _ in failing), working.url]
        with Verifier(sandbox=addresses, workers=1) as verifier:
            assert rewards(verifier, 4) == [1.0] * 4


def test_a_server_that_hangs_is_left_for_another(monkeypatch):
    monkeypatch.setattr(remote, "_SILENT_SECONDS", 2.0)
    with (
        served(workers=1) as first,
        served(workers=1) as second,
        Verifier(sandbox=(first.url, second.url)) as verifier,
    ):
        os.kill(first.process.pid, signal.SIGSTOP)
        try:
            assert rewards(verifier, 8) == [1.0] * 8
        finally:
            os.kill(first.process.pid, signal.SIGCONT)


def test_a_client_that_waits_is_told_that_the_server_lives(monkeypatch):
    monkeypatch.setattr(remote, "_SILENT_SECONDS", 1.5)
    constants = "maxatk.serve.application:_BEAT_SECONDS=0.3"
    program = "import time\nwhile time.process_time() < 3: pass\nprint(int(input()) ** 2)"
    with (
        served(workers=1, constants=constants) as server,
        Verifier(sandbox=[server.url], workers=1) as verifier,
    ):
        assert verifier.verify(program, TESTS[:1]).reward == 1.0


def test_a_verifier_is_closed_while_servers_work():
    with served(workers=1) as server:
        verifier = Verifier(sandbox=[server.url])
        stream = verifier.verify_stream([("while True: pass", TESTS)], limits=None)
        time.sleep(0.3)
        started = time.monotonic()
        verifier.close()
        assert time.monotonic() - started < patience(5)
        assert next(iter(stream))[1].reward is None
        with pytest.raises(SandboxError, match="closed"):
            verifier.verify(SLOW, TESTS)
        server.wait_for_requests(0)


def test_a_full_queue_says_come_again_and_every_verdict_is_right():
    with served("--queue", "3", workers=1) as server:
        with ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(lambda _: server.run_code(**BUSY), range(12)))
        statuses = [status for status, _ in answers]
        assert set(statuses) == {200, 504}
        assert statuses.count(200) >= 3
        for status, answer in answers:
            if status == 200:
                assert answer["run_result"]["stdout"] == "1\n"
        with Verifier(sandbox=[server.url], workers=9) as verifier:
            assert rewards(verifier, 40) == [1.0] * 40


def test_a_long_batch_of_one_client_lets_programs_of_others_in():
    batch = [
        {"program": f"{SLOW}# {place}", "tests": [{"input": "3", "output": "9"}]}
        for place in range(150)
    ]
    with served(workers=1) as server, ThreadPoolExecutor(1) as thread:
        long_answer = thread.submit(server.verify, *batch)
        server.wait_for_requests(1)
        time.sleep(0.5)  # until its programs run
        begin = time.monotonic()
        assert server.run_code("print(7)")[1]["run_result"]["stdout"] == "7\n"
        short = time.monotonic() - begin
        verdicts = long_answer.result(patience(120))[1]["verdicts"]
        assert short < 0.5 * (time.monotonic() - begin)
    assert [verdict["reward"] for verdict in verdicts] == [1.0] * len(batch)


def test_a_request_that_has_waited_too_long_is_not_run():
    with served(workers=1) as server:
        body = {"programs": [{"program": BUSY["code"], "tests": [{"input": "", "output": "1"}]}]}
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(ask, f"{server.url}/verify", body) for _ in range(2)]
            server.wait_for_requests(2)
            status, answer = ask(f"{server.url}/verify", {**body, "wait_s": 0.2})
            assert (status, answer["error"]) == (504, "the request waited too long; try again")
            assert [run.result()[0] for run in running] == [200, 200]


def test_a_request_whose_client_has_given_up_is_not_run():
    endless = {"code": "while True: pass", "run_timeout": 4}
    with served(workers=1) as server:
        clients = [connected(server) for _ in range(20)]
        for client in clients:
            client.sendall(request("/run_code", endless))
        server.wait_for_requests(20)
        for client in clients:
            client.close()
        # Those that run are left, a worker's and the next: to run all would take 80 seconds.
        server.wait_for_requests(2, seconds=30)
        assert server.run_code("print(1)")[1]["run_result"]["stdout"] == "1\n"


def test_slow_clients_do_not_keep_others_waiting():
    constants = "maxatk.serve.server:_IDLE_SECONDS=3 maxatk.serve.server:_LOOK_SECONDS=0.5"
    constants += " maxatk.serve.bodies:_SECONDS=3 maxatk.serve.server:_WRITE_SECONDS=3"
    large = {"code": "print('x' * 15_000_000)", "run_timeout": 10}
    with served(workers=1, constants=constants) as server:
        silent = [connected(server) for _ in range(50)]
        headless = [connected(server) for _ in range(50)]
        for client in headless:
            client.sendall(b"POST /verify HTTP/1.1\r\nHost:")
        bodiless = [connected(server) for _ in range(50)]
        for client in bodiless:
            client.sendall(request("/verify", {}, length=10_000))
        deaf = connected(server)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(request("/run_code", large))
        assert server.run_code("print(1)")[1]["run_result"]["stdout"] == "1\n"
        for client in (*silent, *headless):
            assert client.recv(100) == b""
        for client in bodiless:
            assert b" 408 " in client.recv(100)
        server.wait_for_requests(0)
        # The answer that nobody reads is given up, too: no connection to a client is left.
        process = psutil.Process(server.process.pid)
        deadline = time.monotonic() + patience(60)
        while any(c.status == "ESTABLISHED" for c in process.net_connections()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        for client in (*silent, *headless, *bodiless, deaf):
            client.close()


@pytest.mark.parametrize("length", [(32 << 20) + 1, 1 << 60])
def test_a_body_that_is_too_long_is_refused_before_it_comes(length):
    with served(workers=1) as server, connected(server) as client:
        client.sendall(request("/verify", {}, length=length))
        assert b" 413 " in client.recv(100)


def test_a_client_that_sends_all_before_it_reads_is_told_why_its_body_is_refused():
    with served(workers=1, token="secret-of-sixteen") as server:
        body = b" " * (40 << 20)
        headers = {"Authorization": "Bearer secret-of-sixteen"}
        status, answer = ask(server.url + "/verify", data=body, headers=headers)
        assert (status, answer["error"]) == (413, "the body must have 33554432 bytes at most")
        assert ask(server.url + "/verify", data=body)[0] == 401
        assert ask(server.url + "/other", data=body, headers=headers)[0] == 404


def test_a_body_without_an_end_is_not_read_for_ever():
    constants = f"maxatk.serve.bodies:_MOST_DROPPED={1 << 20}"
    with served(workers=1, constants=constants) as server, connected(server) as client:
        head = f"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 60}\r\n"
        client.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert b" 413 " in client.recv(100)
        with pytest.raises(ConnectionError):
            client.sendall(b" " * (1 << 30))


def test_a_body_in_pieces_is_bounded_as_well():
    with served(workers=1) as server, connected(server) as client:
        client.sendall(b"POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
        try:
            for _ in range(40):
                client.sendall(piece)
        except ConnectionError:
            pass  # the answer was sent meanwhile
        assert b" 413 " in client.recv(100)


def test_a_flood_ends_and_leaves_the_server_as_it_was():
    with served("--queue", "20", workers=2) as server:
        with Verifier(sandbox=[server.url], workers=2) as verifier:
            rewards(verifier, 4)  # what the server opens for its first requests stays open
        server.wait_for_requests(0)
        before = psutil.Process(server.process.pid).num_fds()
        stop = threading.Event()

        def flood(index):
            count = 0
            while not stop.is_set():
                with connected(server) as client:
                    client.sendall(request("/run_code", {"code": f"print({index})"}))
                    if count % 2:  # every other client does not wait for its answer
                        client.recv(1 << 16)
                count += 1

        with ThreadPoolExecutor(24) as threads:
            flooding = [threads.submit(flood, index) for index in range(24)]
            with Verifier(sandbox=[server.url], workers=2) as verifier:
                assert rewards(verifier, 20) == [1.0] * 20
            stop.set()
            for thread in flooding:
                thread.result(patience(60))
        server.wait_for_requests(0)
        deadline = time.monotonic() + patience(30)
        while psutil.Process(server.process.pid).num_fds() > before + 1:
            assert time.monotonic() < deadline, psutil.Process(server.process.pid).open_files()
            time.sleep(0.1)


def test_workers_that_are_killed_cost_no_verdict():
    with (
        served(workers=2) as server,
        Verifier(sandbox=[server.url]) as verifier,
        ThreadPoolExecutor(1) as thread,
    ):
        verdicts = thread.submit(rewards, verifier, 40)
        time.sleep(0.5)
        kill(family(server.process.pid)[1:])
        assert verdicts.result(patience(120)) == [1.0] * 40


def test_a_server_that_ends_answers_what_it_has_and_leaves_nothing():
    constants = "maxatk.serve.admission:_END_SECONDS=100 maxatk.serve.server:_END_SECONDS=120"
    with served(workers=1, constants=constants) as server:
        with ThreadPoolExecutor(6) as threads:
            futures = [threads.submit(server.run_code, **BUSY) for _ in range(6)]
            server.wait_for_requests(6)
            assert server.ended(seconds=150) == 0
            answers = [future.result() for future in futures]
        statuses = [status for status, _ in answers]
        assert set(statuses) <= {200, 504}
        assert 200 in statuses
        assert all(a["run_result"]["stdout"] == "1\n" for s, a in answers if s == 200)


ENDLESS = {"program": "while True: pass", "tests": [{"input": "", "output": "1"}]}


def test_a_program_that_the_end_of_a_server_cuts_off_is_to_be_sent_again():
    constants = "maxatk.serve.admission:_END_SECONDS=1"
    with served(workers=1, constants=constants) as server, ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.verify, ENDLESS)
        server.wait_for_requests(1)
        assert server.ended() == 0
        status, answer = future.result()
    assert (status, answer["error"]) == (504, "the server is ending; try again")


def test_so_is_one_that_a_second_ctrl_c_cuts_off():
    constants = "maxatk.serve.admission:_END_SECONDS=100 maxatk.serve.server:_END_SECONDS=120"
    with served(workers=1, constants=constants) as server, ThreadPoolExecutor(1) as thread:
        future = thread.submit(server.verify, ENDLESS)
        server.wait_for_requests(1)
        server.process.terminate()
        while not future.done():
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        assert server.process.wait(patience(60)) == 0
        status, answer = future.result()
    assert (status, answer["error"]) == (504, "the server is ending; try again")
