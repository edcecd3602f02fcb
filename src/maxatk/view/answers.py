"""What the page of `maxatk view` asks for: state, figures, tables and groups of runs that grow."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from maxatk.errors import counted
from maxatk.evaluation.results import METRICS
from maxatk.objectives import METHODS
from maxatk.report.comparison import Comparison, Run
from maxatk.report.figure_style import lines_for
from maxatk.report.figures import metric_svg
from maxatk.report.training_figures import curve_svg, drawn_quantities
from maxatk.view.advantages import advantages_under
from maxatk.view.evaluation_tables import overview_markup, problems_markup
from maxatk.view.training_tables import groups_markup, step_name, steps_markup, steps_of
from maxatk.view.watched_evaluation import WatchedEvaluation
from maxatk.view.watched_training import WatchedTraining

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
        # A step of the only run needs no name before it.
        named = len(runs) > 1
        self._names_before_steps = {
            place: name if named else "" for place, name in enumerate(self._names)
        }
        self._drawing = threading.Lock()  # matplotlib is not made for several threads

    def state(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what the runs are and which figures they have; nothing where that is `known`.

        Raises FileNotFoundError where all of them are gone.
        """
        version = self._refreshed()
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

    def _refreshed(self) -> str:
        """Refresh all runs but those that are gone; return what stands for what is known now."""
        versions = []
        for run in self._runs:
            try:
                versions.append(run.refresh())
            except FileNotFoundError:
                versions.append("gone")
                if versions.count("gone") == len(self._runs):
                    raise
        return "-".join(versions)

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
        lengths = [len(steps_of(self._trainings))]
        comparison = self._comparison()
        if comparison.runs:
            markup += overview_markup(comparison)
            places = [self._addresses(name) for name in comparison.names]
            markup += problems_markup(comparison, places, most=most)
            lengths += [len(run.results.ids) for run in comparison.runs]
        if self._trainings:
            quantities = [key for key, _ in drawn_quantities(self._curves())]
            names = self._names_before_steps
            markup += steps_markup(self._trainings, names, quantities, most=most)
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
            caption = (
                f"{counted(count, 'kept group')} of this step; a prompt opens its completions."
            )
        elif "prompt" in query:
            places = self._places_of(query["prompt"])
            caption = "The groups of one prompt."
        else:
            places = self._search(query["text"])
            first = "The first " if len(places) == _MOST_HITS else ""
            caption = f"{first}{counted(len(places), 'group')} with this text."
        return {"html": self._groups_markup(places, caption, with_step="step" not in query)}

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

    def _groups_markup(self, places: Sequence[Place], caption: str, *, with_step: bool) -> str:
        groups = []
        steps = []
        for run, step, place in places:
            address = f"#group/{run}/{step}/{place}"
            groups.append((self._runs[run].summary(step, place), address))
            steps.append(step_name(self._names_before_steps[run], step))
        return groups_markup(groups, caption, steps=steps if with_step else ())

    def _addresses(self, run: str) -> dict[str, str]:
        """Return where the samples of each problem of an evaluation are on the page."""
        at = self._names.index(run)
        ids = self._evaluations[at].groups[0]
        return {name: f"#group/{at}/0/{place}" for place, name in enumerate(ids)}
