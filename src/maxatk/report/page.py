"""One report of many runs: a single HTML file that needs no network."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from maxatk.check import whole
from maxatk.errors import DataError
from maxatk.evaluation.failures import FailedTest
from maxatk.evaluation.folder import FAILURES, PROMPTS, SAMPLES, SCORES
from maxatk.evaluation.store import key_of, read_records
from maxatk.jsonl import read_jsonl, read_typed
from maxatk.records import Sample, Score
from maxatk.report import figures, recorded_settings, run_tables, training_figures
from maxatk.report.comparison import Comparison, Run, Runs, comparison_of
from maxatk.report.decision import Decision, decide
from maxatk.report.figure_style import lines_for
from maxatk.report.notices import notices
from maxatk.report.paired_tests import PairedTest
from maxatk.report.tables import counted, share, transposed
from maxatk.version import VERSION

MOST_TEXT = 4000  # characters of a prompt or a completion on the page


def write_report(
    results: Runs,
    out_html: str | Path,
    *,
    title: str = "Best of N",
    curves: Sequence[Mapping[str, Any]] = (),
    samples: int = 3,
    remarks: Sequence[str] = (),
) -> Path:
    """Write one self-contained HTML page about runs over the same problems and return its path.

    Runs given as folders have so many `samples` of every problem, for 0 no prompts either. `curves`
    are trainings: {"name", "log_history"} and, if known, the "recipe" of each. `remarks` are said
    before anything else. Raises as `load_comparison`.
    """
    whole("samples", samples, 0)
    comparison = comparison_of(results)
    details = problem_details(comparison, samples=samples) if samples else []
    metrics = comparison.metrics if len(comparison.runs) > 1 else ()
    decisions = {metric: decide(comparison, metric) for metric in metrics}
    # The template asks for the tables and figures that it shows, each beside its caption.
    page = templates().get_template("report.html")
    text = page.render(
        comparison=comparison,
        decisions=decisions,
        curves=curves,
        recipes={curve["name"]: curve.get("recipe") or {} for curve in curves},
        problem_data=problem_data(comparison, list(decisions.values()), details),
        title=title,
        remarks=remarks,
    )
    out = Path(out_html)
    out.parent.mkdir(parents=True, exist_ok=True)
    # A lone surrogate, which JSON may have, cannot be written to a file.
    out.write_text(text, encoding="utf-8", errors="replace")
    return out


@functools.cache
def templates() -> jinja2.Environment:
    """Return what renders the templates of pages; what they are given is text, not markup."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("maxatk.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {
        "figures": figures,
        "lines_for": lines_for,
        "notices": notices,
        "recorded_settings": recorded_settings,
        "tables": run_tables,
        "training_figures": training_figures,
        "counted": counted,
        "transposed": transposed,
        "version": VERSION,
        "style": _part("report.css"),
        "script": _part("report.js") + _part("problems.js"),
    }
    found.filters["slug"] = lambda metric: metric.replace("@", "-at-")
    found.filters["json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    return found


def _part(name: str) -> str:
    return (resources.files("maxatk.report") / "templates" / name).read_text(encoding="utf-8")


def problem_details(comparison: Comparison, *, samples: int = 3) -> list[dict[str, Any]]:
    """Return prompt and runs of every problem, of runs given as folders of scores.

    So many `samples` of each go from the best to the worst, one with a stored failure among them if
    there is any. Raises DataError for a corrupt file.
    """
    runs, prompts = list[dict[str, dict[str, Any]]](), dict[str, str]()
    for run in comparison.runs:
        if run.folder is not None and (run.folder / SCORES).is_file():
            runs.append(_run_details(run.name, run.folder, samples))
            if (run.folder / PROMPTS).is_file():
                prompts.update(read_jsonl(run.folder / PROMPTS, _prompt))
    ids = comparison.baseline.results.ids if runs else ()
    return [
        _known(prompt=prompts.get(i), runs=[found[i] for found in runs if i in found]) for i in ids
    ]


def _prompt(row: Mapping[str, Any]) -> tuple[str, str]:
    try:
        return str(row["problem_id"]), _cut(str(row["prompt"]))
    except KeyError as error:
        raise DataError(f"prompt: missing field {error}") from error


def _run_details(name: str, folder: Path, count: int) -> dict[str, dict[str, Any]]:
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in read_records(folder / SCORES, Score).values():
        scores[score.problem_id].append(score)
    failed, drawn = folder / FAILURES, folder / SAMPLES
    failures = read_records(failed, FailedTest) if failed.is_file() else {}
    chosen = {}
    for problem_id, found in scores.items():
        found.sort(key=lambda score: -1.0 if score.reward is None else score.reward, reverse=True)
        spread = np.linspace(0, len(found) - 1, min(count, len(found))).round()
        shown = chosen[problem_id] = [found[place] for place in spread.astype(int)]
        explained = [score for score in found if key_of(score) in failures]
        if explained and count > 1 and not any(score in explained for score in shown):
            shown[-1] = explained[-1]
    wanted = {key_of(score) for some in chosen.values() for score in some}
    samples = read_typed(drawn, Sample) if drawn.is_file() else ()
    texts = {key: _cut(one.completion) for one in samples if (key := key_of(one)) in wanted}

    def details(score: Score) -> dict[str, Any]:
        key, said = key_of(score), _verdict_text(score)
        failure = _known(**dataclasses.asdict(failures[key])) if key in failures else None
        return _known(index=score.sample, verdict=said, text=texts.get(key), failure=failure)

    return {
        problem_id: {
            "name": name,
            "rewards": rewards_text([score.reward for score in scores[problem_id]]),
            "samples": list(map(details, some)),
        }
        for problem_id, some in chosen.items()
    }


def rewards_text(rewards: Iterable[float | None]) -> str:
    """Return how often each reward occurs, the highest first and None last, as text."""
    counts = Counter(rewards)
    unscored = counts.pop(None, 0)
    known = sorted((reward for reward in counts if reward is not None), reverse=True)
    parts = [f"{share(reward)} × {counts[reward]}" for reward in known]
    return ", ".join([*parts, *([f"unscored × {unscored}"] if unscored else [])])


def _verdict_text(score: Score) -> str:
    reward = "unscored" if score.reward is None else f"reward {share(score.reward)}"
    if score.error is not None:
        return f"{reward}, {score.error}"
    outcome = str(score.outcome).replace("_", " ")
    return f"{reward}, {score.passed} of {score.total} tests, {outcome}"


def _cut(text: str) -> str:
    # A lone surrogate, which a model can produce, cannot be written to a file.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " …"


def problem_data(
    comparison: Comparison, decisions: Sequence[Decision], details: Sequence[Mapping[str, Any]]
) -> str:
    """Return the JSON that `problems.js` reads, fit to stand in a script element."""
    names, ks = comparison.names, comparison.ks

    def test_row(test: PairedTest) -> list[Any]:
        places = names.index(test.first), names.index(test.second), ks.index(test.measure.k)
        numbers = map(_rounded, (test.difference, test.low, test.high, test.adjusted_p))
        return [*places, *numbers, test.mark, test.problems]

    def by_run(read: Callable[[Run, str, int], Any]) -> list[Any]:
        runs = comparison.runs
        return [[[read(run, m, k) for k in ks] for run in runs] for m in comparison.metrics]

    data = {
        "ids": comparison.baseline.results.ids,
        "models": names,
        "ks": ks,
        "metrics": comparison.metrics,
        "values": by_run(
            lambda run, metric, k: list(map(_rounded, run.results.per_problem.values[metric][k]))
        ),
        "means": by_run(lambda run, metric, k: dataclasses.astuple(run.metric(metric, k))[:3]),
        "tests": [list(map(test_row, decision.tests)) for decision in decisions],
        "details": details,
    }
    # Nothing in a text may end the element, nor begin a comment in it.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _known(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something: no empty text and no None."""
    return {name: value for name, value in fields.items() if value not in ("", None)}
