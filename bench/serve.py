"""What the way over HTTP to `maxatk serve` costs, against a verifier in the same process.

Prints programs a second and CPU milliseconds a program of 10 tests, of this process and of the
server with its workers together. `/run_code` is asked once a test, by threads that keep their
connections. The machine's load does not change the CPU time much.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cpu import cpu_seconds
from maxatk.records import TestCase
from maxatk.verifier import Verifier

PROGRAMS = 100
TESTS = 10
THREADS = 8
SOURCE = "a, b = map(int, input().split())\nprint(a + b)\n"
CASES = [TestCase(input=f"{i} {i + 1}\n", output=f"{2 * i + 1}\n") for i in range(TESTS)]
JOBS = [(f"{SOURCE}# {number}", CASES) for number in range(PROGRAMS)]


def show(name: str, verify: Callable[[], int]) -> None:
    verify()  # connections and caches
    cpu = cpu_seconds()
    started = time.perf_counter()
    passed = verify()
    seconds = time.perf_counter() - started
    assert passed == PROGRAMS * TESTS
    milliseconds = (cpu_seconds() - cpu) / PROGRAMS * 1e3
    print(f"{name:<42} {PROGRAMS / seconds:6.0f} programs/s {milliseconds:6.1f} CPU ms a program")


def passed_by(verifier: Verifier) -> int:
    return sum(verdict.passed for verdict in verifier.verify_many(JOBS))


def passed_in_one_request(port: int) -> int:
    tests = [case.to_json() for case in CASES]
    body = {"programs": [{"program": source, "tests": tests} for source, _ in JOBS]}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    return sum(row["passed"] for row in post(connection, "/verify", body)["verdicts"])


def passed_a_test_at_a_time(port: int) -> int:
    connections = threading.local()

    def passes(source: str, case: TestCase) -> bool:
        if not hasattr(connections, "of_thread"):
            connections.of_thread = http.client.HTTPConnection("127.0.0.1", port)
        body = {"code": source, "stdin": case.input, "language": "python", "run_timeout": 5}
        answer = post(connections.of_thread, "/run_code", body)
        return answer["run_result"]["stdout"] == case.output

    with ThreadPoolExecutor(THREADS) as threads:
        futures = [threads.submit(passes, source, case) for source, _ in JOBS for case in CASES]
        return sum(future.result() for future in futures)


def post(connection: http.client.HTTPConnection, path: str, body: object) -> dict:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def main() -> None:
    workers = len(os.sched_getaffinity(0))
    with Verifier(workers=workers) as verifier:
        show("in this process", lambda: passed_by(verifier))
    command = [sys.executable, "-m", "maxatk", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        port = int(url.rpartition(":")[2])
        with Verifier(sandbox=[url]) as verifier:
            show("sandbox: a program a request", lambda: passed_by(verifier))
        show("/verify, all in one request", lambda: passed_in_one_request(port))
        show(
            f"/run_code, a test a request, {THREADS} threads", lambda: passed_a_test_at_a_time(port)
        )
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
