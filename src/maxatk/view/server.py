"""A local page about trainings and evaluations that run or have ended, served to this machine only.

Only its address with the token is answered; what models wrote is text, and nothing else is loaded.
"""

from __future__ import annotations

import http.server
import json
import secrets
import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.folders import json_of
from maxatk.view.answers import Answers
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = "127.0.0.1"
_PATIENCE_S = 30.0  # for a connection that says nothing
# Name of a part of the page -> its type, and the files it is made of, one after the other.
_PARTS = {
    "": ("text/html", ["view/templates/view.html"]),
    "view.css": ("text/css", ["report/templates/report.css", "view/templates/view.css"]),
    "view.js": ("text/javascript", ["report/templates/report.js", "view/templates/view.js"]),
}


class View(http.server.ThreadingHTTPServer):
    """A server of the page; a `port` of 0 is a free one.

    Raises InvalidValueError for what is no port, and for one that cannot be used.
    """

    daemon_threads = True

    def __init__(
        self, runs: Mapping[str, WatchedTraining | WatchedEvaluation], *, port: int = 0
    ) -> None:
        answers = Answers(runs)
        self.answers = {
            "api/state": answers.state,
            "api/figure": answers.figure,
            "api/tables": answers.tables,
            "api/groups": answers.groups,
            "api/group": answers.group,
        }
        whole("port", port, 0)
        require(port < 1 << 16, "port", "below 65536", port)
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            raise InvalidValueError(
                f"port: cannot listen on port {port}: {error.strerror}; name one that no other "
                "server has, or 0 for a free one"
            ) from error
        self.address = f"http://{_HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless it is that the reader has left."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: View
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        """Answer with a part of the page or with JSON; anything else is 403, 404 or 400."""
        address = urlsplit(self.path)
        token, _, name = address.path[1:].partition("/")
        # The token keeps other users of this machine out, the host pages of other sites that let
        # their own name lead to this machine. The port is another one behind a tunnel.
        has_token = secrets.compare_digest(token.encode(), self.server.token.encode())
        host = self.headers.get("Host", "").partition(":")[0]
        if not has_token or host not in (_HOST, "localhost"):
            self._send(403, "text/plain", b"the address of the page has a token\n")
        elif name in _PARTS:
            kind, files = _PARTS[name]
            package = resources.files("maxatk")
            self._send(200, kind, b"".join((package / file).read_bytes() for file in files))
        elif name in self.server.answers:
            self._send_answer(name, dict(parse_qsl(address.query)))
        else:
            self._send(404, "text/plain", b"there is no such page\n")

    def _send_answer(self, name: str, query: Mapping[str, str]) -> None:
        status = 200
        try:
            answer = self.server.answers[name](query)
        except MaxAtKError as error:
            status = 400
            answer = {"error": str(error)}
        except (LookupError, ValueError, TypeError, AttributeError):
            # A group that a resumed training has dropped, or an address that somebody has edited.
            status = 400
            answer = {"error": "gone"}
        except OSError as error:  # a folder that was moved, or a file that is written anew
            status = 400
            answer = {"error": f"{error.strerror}: {error.filename}"}
        self._send(status, "application/json", json.dumps(json_of(answer)).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for header, value in _HEADERS.items():
            self.send_header(header, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the address in a line of the log would tell the token."""
