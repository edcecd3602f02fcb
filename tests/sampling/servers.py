"""A real HTTP server on loopback that speaks OpenAI's protocol and fails as it is told."""

import contextlib
import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeServer(ThreadingHTTPServer):
    """Answers every request with a text made from its seed, after the faults it was given.

    `faults` are taken one a request, first come first served: a status, "hang", "drop", a body,
    or a function that gets the handler and answers by itself. The first `busy` requests for the
    models are answered by 503.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, faults=(), *, delay=0.0, headers=(), models=(), busy=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = list(models)
        self.faults = list(faults)
        self.delay = delay
        self.extra = dict(headers)
        self.left_busy = busy
        self.lock = threading.Lock()
        self.requests = []
        self.busy = 0
        self.busiest = 0
        self.stopped = threading.Event()

    def handle_error(self, request, client_address):
        # A client leaves in the middle of a request when another one of its own has failed.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.server.left_busy:
            self.server.left_busy -= 1
            self.answer(503, {})
            return
        self.answer(200, {"data": self.server.models})

    def do_POST(self):
        server = self.server
        length = int(self.headers["Content-Length"])
        data = self.rfile.read(length)
        if len(data) < length:  # the client left: another of its requests failed
            return
        body = json.loads(data)
        with server.lock:
            server.requests.append((self.path, dict(self.headers), body))
            fault = server.faults.pop(0) if server.faults else None
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        try:
            time.sleep(server.delay)
            self.respond(fault, body)
        finally:
            with server.lock:
                server.busy -= 1

    def respond(self, fault, body):
        if fault == "hang":
            self.server.stopped.wait(30)
        elif fault == "drop":
            self.connection.close()
        elif isinstance(fault, int):
            self.answer(fault, {"error": {"message": f"fault {fault}"}}, self.server.extra)
        elif callable(fault):
            fault(self)
        elif fault is not None:
            self.answer(200, fault)
        else:
            self.answer(200, completion(self.path, body))

    def answer(self, status, value, headers=()):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        with contextlib.suppress(OSError):  # the client may have given up
            self.send_response(status)
            for name, text in {**dict(headers), "Content-Length": len(data)}.items():
                self.send_header(name, str(text))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def completion(path, body):
    text = text_for(body["seed"])
    shown = {"message": {"content": text}} if path.endswith("/chat/completions") else {"text": text}
    usage = {"completion_tokens": len(text)}
    if path.endswith("/chat/completions"):
        logprobs = {"content": [{"logprob": -1.0}, {"logprob": -0.25}]}
    else:
        logprobs = {"token_logprobs": [-1.0, -0.25]}
    optional = {"logprobs": logprobs} if body.get("logprobs") else {}
    return {"choices": [{**shown, **optional, "finish_reason": "stop"}], "usage": usage}


def text_for(seed):
    return f"print({hashlib.sha256(str(seed).encode()).digest()[0] % 3})"


@contextlib.contextmanager
def serving(faults=(), **settings):
    """Run a server in a thread."""
    server = FakeServer(faults, **settings)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
