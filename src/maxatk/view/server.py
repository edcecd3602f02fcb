"""A local page about trainings and evaluations that run or have ended, served to this machine only.

Only its address with the token is answered; what models wrote is text, and nothing else is loaded.
"""

from __future__ import annotations

import http.server
import json
import secrets
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from maxatk.errors import MaxAtKError
from maxatk.evaluation.results import METRICS
from maxatk.folders import known
from maxatk.objectives import METHODS
from maxatk.report.comparison import Comparison, Run
from maxatk.report.figure_style import lines_for
from maxatk.report.figures import metric_svg
from maxatk.report.page import rewards_text, templates
from maxatk.report.run_tables import overview_table
from maxatk.report.tables import Cell, Table, share, table_of, table_of_rows
from maxatk.report.training_figures import curve_svg, drawn_quantities
from maxatk.view.watched import WatchedEvaluation, WatchedTraining, advantages_under

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
_PARTS = {
    "": ("text/html", ("view/templates/view.html",)),
    "view.css": ("text/css", ("report/templates/report.css", "view/templates/view.css")),
    "view.js": ("text/javascript", ("report/templates/report.js", "view/templates/view.js")),
}
_ANSWERS = {f"api/{name}": name for name in ("state", "figure", "tables", "groups", "group")}
_TOLD = ("reward", "entropy", "step_time")  # of a step, beside max@k; figures have the rest
_MOST_FOUND = 200  # groups that a search returns


class View(http.server.ThreadingHTTPServer):
    """A server of the page; raises OSError for a `port` that is taken, and 0 is a free one."""

    daemon_threads = True

    def __init__(
        self, runs: Mapping[str, WatchedTraining | WatchedEvaluation], *, port: int = 0
    ) -> None:
        self.names, self.runs = list(runs), list(runs.values())
        every = list(enumerate(self.runs))
        self._trainings = {at: run for at, run in every if isinstance(run, WatchedTraining)}
        self._evaluations = {at: run for at, run in every if isinstance(run, WatchedEvaluation)}
        self.token = secrets.token_urlsafe(16)
        self._drawing = threading.Lock()  # matplotlib is not made for several threads
        super().__init__(("127.0.0.1", port), _Handler)
        self.hosts = [f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")]
        self.address = f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless it is that the reader has left."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what the runs are and which figures they have; nothing where that is `known`."""
        version = "-".join(run.refresh() for run in self.runs)
        if query.get("known") == version:
            return {"version": version}
        lines, drawn = lines_for(self.names), drawn_quantities(self._curves())
        if self._comparison().runs:
            drawn += [(each, "against k, with 95% intervals") for each in METRICS]
        runs = [
            {
                "name": self.names[at],
                "color": lines[self.names[at]].color,
                "progress": run.progress,
                "trained": at in self._trainings,
                "steps": list(run.groups),
            }
            for at, run in enumerate(self.runs)
        ]
        return {"version": version, "figures": drawn, "methods": list(METHODS), "runs": runs}

    def figure(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a figure as SVG, as the report draws it."""
        key = query["key"]
        with self._drawing:
            if key in METRICS:
                return {"svg": metric_svg(self._comparison(), key, self.names)}
            curves = self._curves()
            if key not in dict(drawn_quantities(curves)):
                raise KeyError(key)
            return {"svg": curve_svg(curves, self.names, key)}

    def tables(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the tables of the runs as markup, `most` rows of the long ones."""
        most = int(query["most"])
        found, comparison = "", self._comparison()
        if comparison.runs:
            said = "Unbiased estimates over the problems that have all samples so far."
            found = _markup(overview_table(comparison), said, "overview")
            found += self._problems(comparison, most)
        if self._trainings:
            found += self._steps(most)
        longest = max([len(self._drawn()), *(len(run.results.ids) for run in comparison.runs)])
        return {"html": found, "more": max(0, longest - most)}

    def group(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a group, its advantages under a `method`, and where else its prompt was drawn."""
        run, step = self.runs[int(query["run"])], int(query["step"])
        found = run.group(step, int(query["place"]))
        if method := query.get("method"):
            found["other"] = advantages_under(found, method, int(query.get("k") or found["k"]))
        if isinstance(run, WatchedTraining):
            found["method"] = run.about["method"]
        found["count"] = len(run.groups.get(step, ()))
        found["drawn"] = self._places(found["group"])
        return found

    def groups(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a table of groups as markup: of a `step`, of a `prompt`, or those with a text."""
        if "step" in query:
            run, step = int(query["run"]), int(query["step"])
            places = [(run, step, at) for at in range(len(self.runs[run].groups.get(step, ())))]
            said = f"{len(places)} groups that were kept; a prompt opens its completions."
        elif "prompt" in query:
            places, said = self._places(query["prompt"]), "The groups of one prompt."
        else:
            places = []
            for run, found in enumerate(self.runs):
                hits = found.search(query["text"], _MOST_FOUND - len(places))
                places += [(run, *place) for place in hits]
            first = "The first " if len(places) == _MOST_FOUND else ""
            said = f"{first}{len(places)} groups that hold it."
        return {"html": self._groups(places, said, named="step" not in query)}

    def _groups(self, places: Sequence[tuple[int, int, int]], said: str, *, named: bool) -> str:
        headings = ("prompt", "rewards", "mean", "best", "signal", *(("step",) if named else ()))
        rows: list[list[Cell | str]] = []
        for run, step, place in places:
            group = self.runs[run].summary(step, place)
            rewards = [sample["reward"] for sample in group["samples"]]
            scored = [reward for reward in rewards if reward is not None]
            told = ": ".join(text for text in (group["id"], group["prompt"][:80]) if text)
            recorded = [s["advantage"] for s in group["samples"] if "advantage" in s]
            signal = any(recorded) if recorded else len(set(scored)) > 1
            rows.append(
                [
                    Cell(told or "–", link=f"#group/{run}/{step}/{place}"),
                    rewards_text(rewards),
                    _digits(sum(scored) / len(scored) if scored else None),
                    _digits(max(scored, default=None)),
                    "yes" if signal else "none",
                    *([self._step_name(run, step)] if named else []),
                ]
            )
        return _markup(table_of_rows(headings, rows), said, "groups")

    def _curves(self) -> list[dict[str, Any]]:
        runs = self._trainings.items()
        return [{"name": self.names[at], "log_history": run.log} for at, run in runs]

    def _comparison(self) -> Comparison:
        runs = self._evaluations.items()
        return Comparison(tuple(Run(self.names[at], r.results) for at, r in runs if r.results))

    def _places(self, key: str) -> list[tuple[int, int, int]]:
        return [(at, *place) for at, run in enumerate(self.runs) for place in run.places(key)]

    def _drawn(self) -> list[tuple[int, int]]:
        """Return the steps of all trainings with their runs, the last first."""
        drawn = [(step, at) for at, run in self._trainings.items() for step in list(run.groups)]
        return sorted(drawn, key=lambda found: (-found[0], found[1]))

    def _steps(self, most: int) -> str:
        keys = [key for key, _ in drawn_quantities(self._curves()) if key in _TOLD or "@" in key]
        logged: dict[tuple[int, int], dict[str, Any]] = defaultdict(dict)
        for at, run in self._trainings.items():
            for row in run.log:
                logged[row["step"], at].update(row)
        drawn, window = self._drawn(), dict[int, dict[str, Any]]()
        rows: list[list[Cell | str]] = []
        for step, at in drawn[:most]:
            window[at] = logged.get((step, at)) or window.get(at, {})
            rows.append([Cell(self._step_name(at, step), link=f"#step/{at}/{step}")])
            rows[-1] += [_digits(known(window[at], key)) for key in keys]
        said = (
            f"{len(drawn)} steps with groups, the last first, with means over the steps of a row "
            "of the log; a step opens its prompts, and so does a figure."
        )
        return _markup(table_of_rows(("step", *keys), rows), said, "steps")

    def _step_name(self, run: int, step: int) -> str:
        return str(step) if len(self.runs) == 1 else f"{self.names[run]}, {step}"

    def _problems(self, comparison: Comparison, most: int) -> str:
        """Return the table of the problems: max@1 of every model, and max@k for its largest k."""
        ids = dict.fromkeys(name for run in comparison.runs for name in run.results.ids)
        shown, last = dict.fromkeys(list(ids)[:most]), comparison.ks[-1]
        columns: dict[str, list[Cell | str]] = {"problem": [*shown]}
        for run in comparison.runs:
            at, values = self.names.index(run.name), run.results.per_problem.values["max@k"]
            places = {name: place for place, name in enumerate(self._evaluations[at].groups[0])}
            cells = {
                name: Cell(
                    share(first),
                    f"max@{last} {share(best)}",
                    link=f"#group/{at}/0/{places[name]}",
                )
                for name, first, best in zip(run.results.ids, values[1], values[last], strict=True)
                if name in shown
            }
            columns[run.name] = [cells.get(name, "–") for name in shown]
        said = "max@1 of the problems; a value opens the samples of its model."
        return _markup(table_of(columns), said, "problems")


class _Handler(http.server.BaseHTTPRequestHandler):
    server: View

    def do_GET(self) -> None:
        """Answer with a part of the page or with JSON; anything else is 403, 404 or 400."""
        path = urlsplit(self.path)
        token, _, name = path.path[1:].partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if not known or self.headers.get("Host") not in self.server.hosts:
            self._answer(403, "text/plain", b"the address of the page has a token\n")
        elif name in _PARTS:
            (kind, files), folder = _PARTS[name], resources.files("maxatk")
            self._answer(200, kind, b"".join((folder / part).read_bytes() for part in files))
        elif name not in _ANSWERS:
            self._answer(404, "text/plain", b"there is no such page\n")
        else:
            status = 200
            try:
                found = getattr(self.server, _ANSWERS[name])(dict(parse_qsl(path.query)))
            except (MaxAtKError, KeyError, ValueError, IndexError) as error:
                told = str(error) if isinstance(error, MaxAtKError) else "gone"
                status, found = 400, {"error": told}
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


def _markup(table: Table, said: str, name: str) -> str:
    parts = templates().get_template("parts.html").module
    return str(parts.table(table, said, name))  # type: ignore[attr-defined]


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".removesuffix(".000")
