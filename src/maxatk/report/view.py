"""A local page about a training that runs or has ended: files alone, served to this machine only.

The address holds a token: without it, or under the name of another host, nothing is answered.
What models wrote is text on the page. Its policy admits no script, style or address of another
origin.
"""

from __future__ import annotations

import functools
import http.server
import json
import secrets
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from maxatk.errors import MaxAtKError
from maxatk.objectives import METHODS
from maxatk.report.figures import drawn_quantities, lines_for
from maxatk.report.training import Training, advantages_under

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PARTS = {
    "": ("text/html", ("view.html",)),
    "view.css": ("text/css", ("report.css", "view.css")),
    "view.js": ("text/javascript", ("report.js", "view.js")),
}
_MOST_FOUND = 200  # groups that a search returns


class View(http.server.ThreadingHTTPServer):
    """A server of the page about one or two trainings, on a port of the loopback; 0 is a free one.

    `address` is where the page is. Raises OSError for a port that is taken.
    """

    daemon_threads = True

    def __init__(self, trainings: Mapping[str, Training], *, port: int = 0) -> None:
        self.trainings = dict(trainings)
        self.token = secrets.token_urlsafe(16)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def address(self) -> str:
        """Return the address of the page, with its token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """Return the names of the host that are answered."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what every training has logged; nothing where that is `known` already."""
        found = list(self.trainings.values())
        version = "-".join(training.refresh() for training in found)
        if query.get("known") == version:
            return {"version": version}
        logs = [{"name": name, "log_history": t.log} for name, t in self.trainings.items()]
        drawn = drawn_quantities(logs)
        lines, keys = lines_for(list(self.trainings)), ["step", *(key for key, _ in drawn)]
        return {
            "version": version,
            "quantities": drawn,
            "methods": list(METHODS),
            "runs": [
                {
                    "name": name,
                    "color": lines[name].color,
                    "about": training.about,
                    "ended": training.ended,
                    "rows": [[row.get(key) for key in keys] for row in training.log],
                    "steps": training.steps,
                }
                for name, training in self.trainings.items()
            ],
        }

    def step(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the groups of a step without their texts."""
        training = self._training(query)
        groups = training.groups(int(query["step"]))
        return {"groups": [_summary(group) for group in groups]}

    def group(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a group, its advantages under a `method`, and where else its prompt was drawn."""
        step, place = int(query["step"]), int(query["place"])
        found = self._training(query).groups(step)[place]
        method, k = query.get("method") or None, int(query.get("k") or found["k"])
        if method is not None:
            found["other"] = advantages_under(found, method, k)
        found["method"] = self._training(query).about["method"]
        found["drawn"] = [
            {"run": run, "step": step, "place": place}
            for run, training in enumerate(self.trainings.values())
            for step, place in training.places(found["group"])
        ]
        return found

    def prompt(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the groups of a prompt in all trainings."""
        return {
            "drawn": [
                {"run": run, "step": step, "place": at, **_summary(training.groups(step)[at])}
                for run, training in enumerate(self.trainings.values())
                for step, at in training.places(query["key"])
            ]
        }

    def search(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the groups whose prompt, completions or verdicts hold a text."""
        found: list[dict[str, Any]] = []
        for run, training in enumerate(self.trainings.values()):
            for step, place, group in training.search(query["text"], _MOST_FOUND - len(found)):
                found.append({"run": run, "step": step, "place": place, **_summary(group)})
        return {"groups": found, "most": _MOST_FOUND}

    def _training(self, query: Mapping[str, str]) -> Training:
        return list(self.trainings.values())[int(query["run"])]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: View

    def do_GET(self) -> None:
        """Answer with a part of the page or with JSON; anything else is 403, 404 or 400."""
        path = urllib.parse.urlsplit(self.path)
        token, _, name = path.path[1:].partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if not known or self.headers.get("Host") not in self.server.hosts:
            self._answer(403, "text/plain", b"the address of the page has a token\n")
            return
        if name in _PARTS:
            kind, files = _PARTS[name]
            self._answer(200, kind, _parts(files))
            return
        answers: dict[str, Callable[[Mapping[str, str]], Any]] = {
            f"api/{answer.__name__}": answer
            for answer in (
                self.server.state,
                self.server.step,
                self.server.group,
                self.server.prompt,
                self.server.search,
            )
        }
        if name not in answers:
            self._answer(404, "text/plain", b"there is no such page\n")
            return
        query = dict(urllib.parse.parse_qsl(path.query))
        try:
            status, found = 200, answers[name](query)
        except (MaxAtKError, KeyError, ValueError, IndexError) as error:
            status, found = 400, {"error": str(error) if isinstance(error, MaxAtKError) else "gone"}
        self._answer(status, "application/json", json.dumps(found).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for header, value in _HEADERS.items():
            self.send_header(header, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the address in a line of the log would tell the token."""


@functools.cache
def _parts(files: Sequence[str]) -> bytes:
    folder = resources.files("maxatk.report") / "templates"
    return b"".join((folder / name).read_bytes() for name in files)


def _summary(group: Mapping[str, Any]) -> dict[str, Any]:
    samples = group["samples"]
    return {
        "id": group["id"],
        "key": group["group"],
        "k": group["k"],
        "prompt": group["prompt"][:200],
        "rewards": [sample["reward"] for sample in samples],
        "silent": not any(sample["advantage"] for sample in samples),
    }
