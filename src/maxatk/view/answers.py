"""What the page of `maxatk view` asks for: state, figures, tables and groups of runs that grow."""

from __future__ import annotations

import dataclasses
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeAlias

from maxatk.evaluation.results import METRICS
from maxatk.folders import known
from maxatk.objectives import METHODS
from maxatk.report.comparison import Comparison, Run
from maxatk.report.figure_style import lines_for
from maxatk.report.figures import metric_svg
from maxatk.report.page import templates
from maxatk.report.problem_details import rewards_text
from maxatk.report.run_tables import overview_table
from maxatk.report.tables import Cell, Table, counted, share, table_of_rows
from maxatk.report.training_figures import curve_svg, drawn_quantities
from maxatk.view.advantages import advantages_under
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining

# Columns of the steps beside max@k, with their units; figures have the rest.
_STEP_COLUMNS = {"reward": "reward", "entropy": "nats a token", "step_time": "seconds a step"}
_MOST_HITS = 200  # groups that a search returns

Place: TypeAlias = tuple[int, int, int]
"""Where a group is: the place of its run, its step, and its place within the step."""


class Answers:
    """The answers about `runs` by name, for several threads; each takes the query of its address.

    All raise KeyError, ValueError or IndexError for a query of something that is not there.
    """

    def __init__(self, runs: Mapping[str, WatchedTraining | WatchedEvaluation]) -> None:
        self._names = list(runs)
        self._runs = list(runs.values())
        self._trainings: dict[int, WatchedTraining] = {}  # by their place among the runs
        self._evaluations: dict[int, WatchedEvaluation] = {}
        for place, run in enumerate(self._runs):
            if isinstance(run, WatchedTraining):
                self._trainings[place] = run
            else:
                self._evaluations[place] = run
        self._drawing = threading.Lock()  # matplotlib is not made for several threads

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what the runs are and which figures they have; nothing where that is `known`."""
        version = "-".join(run.refresh() for run in self._runs)
        if query.get("known") == version:
            return {"version": version}
        figures = drawn_quantities(self._curves())
        comparison = self._comparison()
        if comparison.runs:
            ending = "against k, with 95% intervals over problems"
            figures += [(metric, f"{metric} {ending}") for metric in comparison.metrics]
        lines = lines_for(self._names)
        runs = [
            {
                "name": name,
                "color": lines[name].color,
                "progress": run.progress,
                "trained": place in self._trainings,
                "steps": list(run.groups),
            }
            for place, (name, run) in enumerate(zip(self._names, self._runs, strict=True))
        ]
        return {"version": version, "figures": figures, "methods": list(METHODS), "runs": runs}

    def figure(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a figure as SVG, as the report draws it."""
        key = query["key"]
        with self._drawing:
            if key in METRICS:
                return {"svg": metric_svg(self._comparison(), key, self._names)}
            curves = self._curves()
            if key not in dict(drawn_quantities(curves)):
                raise KeyError(key)
            return {"svg": curve_svg(curves, self._names, key)}

    def tables(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the tables of the runs as markup, `most` rows of the long ones."""
        most = int(query["most"])
        markup = ""
        lengths = [len(self._steps())]
        comparison = self._comparison()
        if comparison.runs:
            markup += _markup(_overview(comparison), _overview_caption(comparison), "overview")
            markup += self._problems_table(comparison, most)
            lengths += [len(run.results.ids) for run in comparison.runs]
        if self._trainings:
            markup += self._steps_table(most)
        return {"html": markup, "more": max(0, max(lengths) - most)}

    def group(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a group, its advantages under a `method`, and where else its prompt was drawn."""
        run = self._runs[int(query["run"])]
        step = int(query["step"])
        group = run.group(step, int(query["place"]))
        method = query.get("method")
        if method:
            k = int(query.get("k") or group["k"])
            group["other"] = advantages_under(group, method, k)
        if isinstance(run, WatchedTraining):
            group["method"] = run.about.get("method")
        group["count"] = len(run.groups.get(step, ()))
        group["drawn"] = self._places_of(group["group"])
        return group

    def groups(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a table of groups as markup: of a `step`, of a `prompt`, or those with a text."""
        if "step" in query:
            run = int(query["run"])
            step = int(query["step"])
            count = len(self._runs[run].groups.get(step, ()))
            places = [(run, step, place) for place in range(count)]
            caption = f"{count} groups that were kept of this step; a prompt opens its completions."
        elif "prompt" in query:
            places = self._places_of(query["prompt"])
            caption = "The groups of one prompt."
        else:
            places = self._search(query["text"])
            first = "The first " if len(places) == _MOST_HITS else ""
            caption = f"{first}{len(places)} groups that hold it."
        return {"html": self._groups_table(places, caption, with_step="step" not in query)}

    def _curves(self) -> list[dict[str, Any]]:
        return [
            {"name": self._names[place], "log_history": run.log, "last_step": run.last_step}
            for place, run in self._trainings.items()
        ]

    def _comparison(self) -> Comparison:
        """Return the evaluations that have results so far; none is against another here."""
        runs = []
        for place, run in self._evaluations.items():
            if run.results is not None:
                runs.append(Run(self._names[place], run.results))
        return Comparison(tuple(runs))

    def _places_of(self, key: str) -> list[Place]:
        """Return the places of the groups of a prompt in all runs."""
        return [
            (run, step, place)
            for run, watched in enumerate(self._runs)
            for step, place in watched.places(key)
        ]

    def _search(self, text: str) -> list[Place]:
        places: list[Place] = []
        for run, watched in enumerate(self._runs):
            hits = watched.search(text, _MOST_HITS - len(places))
            places += [(run, step, place) for step, place in hits]
        return places

    def _steps(self) -> list[tuple[int, int]]:
        """Return the steps of all trainings with the places of their runs, the last step first."""
        # A copy of the keys: another request may refresh the run meanwhile.
        steps = [
            (step, run) for run, watched in self._trainings.items() for step in [*watched.groups]
        ]
        return sorted(steps, key=lambda step_and_run: (-step_and_run[0], step_and_run[1]))

    def _step_name(self, run: int, step: int) -> str:
        return str(step) if len(self._runs) == 1 else f"{self._names[run]}, {step}"

    def _groups_table(self, places: Sequence[Place], caption: str, *, with_step: bool) -> str:
        headings = ["prompt", "rewards", "mean", "best", "signal"]
        if with_step:
            headings.append("step")
        rows: list[list[Cell | str]] = []
        for run, step, place in places:
            group = self._runs[run].summary(step, place)
            rows.append(_group_cells(group, link=f"#group/{run}/{step}/{place}"))
            if with_step:
                rows[-1].append(self._step_name(run, step))
        return _markup(table_of_rows(headings, rows), caption, "groups")

    def _steps_table(self, most: int) -> str:
        keys = [
            key for key, _ in drawn_quantities(self._curves()) if key in _STEP_COLUMNS or "@" in key
        ]
        logged: dict[tuple[int, int], dict[str, Any]] = defaultdict(dict)
        for run, training in self._trainings.items():
            for row in training.log:
                logged[row["step"], run].update(row)
        steps = self._steps()
        rows: list[list[Cell | str]] = []
        # A row of the log has means over the steps since the row before it. From the last step
        # backwards, each step has the row that covers it: the next one logged.
        covering: dict[int, dict[str, Any]] = {}
        for step, run in steps[:most]:
            covering[run] = logged.get((step, run)) or covering.get(run, {})
            values = self._trainings[run].values_of(step)
            cells = [share(values.get(key, known(covering[run], key))) for key in keys]
            name = Cell(self._step_name(run, step), link=f"#step/{run}/{step}")
            rows.append([name, *cells])
        caption = (
            f"{len(steps)} steps, the last first. Reward and max@k are means over the groups that "
            "were kept of the step, the others over the steps since the log's row before. A step "
            "opens its prompts, and so does a click into a figure."
        )
        headings = [_STEP_COLUMNS.get(key, key) for key in keys]
        return _markup(table_of_rows(("step", *headings), rows), caption, "steps")

    def _problems_table(self, comparison: Comparison, most: int) -> str:
        """Return the table of the problems: max@1 of every model, and max@k for its largest k."""
        all_ids = dict.fromkeys(name for run in comparison.runs for name in run.results.ids)
        ids = list(all_ids)[:most]
        cells_of_runs = [
            self._problem_cells(run, set(ids), largest_k=comparison.ks[-1])
            for run in comparison.runs
        ]
        rows = [[name, *(cells.get(name, "–") for cells in cells_of_runs)] for name in ids]
        caption = (
            "max@1 of each problem, and below it max@k for the largest k of all models; a value "
            "opens the samples of its model."
        )
        table = table_of_rows(("problem", *comparison.names), rows)
        return _markup(table, caption, "problems")

    def _problem_cells(self, run: Run, ids: Set[str], *, largest_k: int) -> dict[str, Cell]:
        """Return the cells of these problems of a run, each of which opens its samples."""
        at = self._names.index(run.name)
        places = {name: place for place, name in enumerate(self._evaluations[at].groups[0])}
        values = run.results.per_problem.values["max@k"]
        cells = {}
        for row, problem_id in enumerate(run.results.ids):
            if problem_id not in ids:
                continue
            cells[problem_id] = Cell(
                share(values[1][row]),
                f"max@{largest_k} {share(values[largest_k][row])}",
                link=f"#group/{at}/0/{places[problem_id]}",
            )
        return cells


def _overview(comparison: Comparison) -> Table:
    """Return the metrics of every model; on problems of their own none of them is the best."""
    overview = overview_table(comparison, metrics=comparison.metrics)
    baseline = comparison.baseline.results
    place = "settings.problems"
    if all(
        run.results.ids == baseline.ids and run.results.recorded(place) == baseline.recorded(place)
        for run in comparison.runs
    ):
        return overview
    rows = [[dataclasses.replace(cell, mark="") for cell in row] for row in overview.rows]
    return table_of_rows(overview.header, rows)


def _overview_caption(comparison: Comparison) -> str:
    """Say what the overview is over: an evaluation that runs has some problems only."""
    counts = [len(run.results.ids) for run in comparison.runs]
    fewest = min(counts)
    most = max(counts)
    problems = counted(most) if fewest == most else f"{fewest:,} to {most:,} problems"
    same = "; pass@k is the same" if len(comparison.metrics) == 1 else ""
    return f"Unbiased estimates with 95% intervals over {problems} that have all samples{same}."


def _group_cells(group: Mapping[str, Any], *, link: str) -> list[Cell | str]:
    """Return a group as cells: its prompt, rewards, their mean and best, and if it has a signal."""
    rewards = [sample["reward"] for sample in group["samples"]]
    scored = [reward for reward in rewards if reward is not None]
    title = ": ".join(text for text in (group["id"], group["prompt"][:80]) if text)
    advantages = [s["advantage"] for s in group["samples"] if "advantage" in s]
    # Of an evaluation, or a training that recorded no advantages, different rewards are a signal.
    signal = any(advantages) if advantages else len(set(scored)) > 1
    return [
        Cell(title or "–", link=link),
        rewards_text(rewards),
        share(sum(scored) / len(scored) if scored else None),
        share(max(scored, default=None)),
        "yes" if signal else "none",
    ]


def _markup(table: Table, caption: str, name: str) -> str:
    parts = templates().get_template("parts.html").module
    return str(parts.table(table, caption, name))  # type: ignore[attr-defined]
