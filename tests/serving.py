"""`maxatk serve` as a process of its own, for the tests of what asks it."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from processes import family, patience, still_alive

# Sets constants of modules, so that what takes minutes takes seconds, and runs the command.
START = """
import importlib, sys
for setting in sys.argv[1].split():
    place, value = setting.split("=")
    module, name = place.split(":")
    setattr(importlib.import_module(module), name, float(value))
from maxatk.cli.main import main
sys.exit(main(["serve", *sys.argv[2:]]))
"""

# What a server says of itself that could be a `maxatk serve`.
HEALTH = {"workers": 1, "isolation": {}, "limits": {"time_limit": 9, "memory_limit": 1 << 40}}


class Served:
    """A running server: its address, and its process with all below it."""

    def __init__(self, process, url):
        self.process = process
        self.url = url

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def kill(self):
        """Lose the machine: kill the process, and wait until nothing is left of it."""
        members = family(self.process.pid)
        self.process.kill()
        self.process.wait()
        assert not still_alive(members)

    def ended(self, *, seconds=60):
        """End the server as a scheduler does; return its status, with nothing left of it."""
        members = family(self.process.pid)
        self.process.terminate()
        status = self.process.wait(patience(seconds))
        assert not still_alive(members)
        return status

    def health(self, **headers):
        return ask(self.url + "/health", headers=headers)

    def run_code(self, code, stdin="", **fields):
        return ask(self.url + "/run_code", {"code": code, "stdin": stdin, **fields})

    def verify(self, *programs, **fields):
        return ask(self.url + "/verify", {"programs": programs, **fields})

    def wait_for_requests(self, number, *, seconds=60):
        """Return once the server holds so many requests."""
        deadline = time.monotonic() + patience(seconds)
        while self.health()[1]["requests"] != number:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def ask(url, body=None, *, headers=(), data=None):
    """Return status and JSON of an answer."""
    if body is not None:
        data = json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **dict(headers)}
    request = urllib.request.Request(url, data, sent)
    try:
        with urllib.request.urlopen(request, timeout=patience(120)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@contextlib.contextmanager
def answering(status, data, *, health):
    """Run a server that answers every program the same; yield its address and what it was asked."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status, data):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return body

        def do_GET(self):
            self.answer(200, json.dumps(health).encode())

        def do_POST(self):
            bodies.append(self.answer(status, data))

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()


@contextlib.contextmanager
def served(*flags, workers=2, port=0, constants="", token=""):
    """Run a server until the end of the block."""
    command = [sys.executable, "-W", "ignore", "-c", START, constants]
    flags = ["--port", str(port), "--verifier.workers", str(workers), *flags]
    process = subprocess.Popen(
        [*command, *flags],
        env={**os.environ, "MAXATK_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("serving"), line
        yield Served(process, line.split()[-1])
    finally:
        members = family(process.pid)
        process.kill()
        process.wait()
        process.stdout.close()
        assert not still_alive(members)
