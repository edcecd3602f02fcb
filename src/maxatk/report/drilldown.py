"""Problem by problem: the prompt, the rewards of every run in order, and a few of its samples."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluation.failures import Failure
from maxatk.evaluation.folder import FAILURES, PROMPTS, SAMPLES, SCORES
from maxatk.evaluation.store import key_of, read_records
from maxatk.jsonl import read_jsonl, read_typed
from maxatk.records import Problem, Sample, Score
from maxatk.report.deciding import Decision, PairedTest
from maxatk.report.runs import Comparison, Run
from maxatk.report.tables import share

MOST_TEXT = 4000  # characters of a prompt or a completion on the page


def problem_details(
    comparison: Comparison, *, problems: Iterable[Problem] = (), samples: int = 3
) -> list[dict[str, Any]]:
    """Return what the page shows of the problems, from the runs given as folders of scores.

    A problem has "prompt" and "runs"; a run "name", "rewards" from the highest, as text, and
    "samples", each with "index", "verdict", "text" and its first "failure". So many `samples` of
    every run are shown, spread from the best to the worst, of equal rewards those whose failure is
    stored. What is not known is left out; prompts are those of the `problems`, else of the folders.
    There are no details without such a folder. Raises DataError for a corrupt file.
    """
    folders = {
        run.name: run.folder
        for run in comparison.runs
        if run.folder is not None and (run.folder / SCORES).is_file()
    }
    if not folders:
        return []
    prompts: dict[str, str] = {}
    for folder in folders.values():
        if (folder / PROMPTS).is_file():
            prompts.update(read_jsonl(folder / PROMPTS, _prompt))
    prompts.update({problem.id: _cut(problem.prompt) for problem in problems})
    runs = {name: _run_details(name, folder, samples) for name, folder in folders.items()}
    return [
        _known(
            prompt=prompts.get(problem_id),
            runs=[found[problem_id] for found in runs.values() if problem_id in found],
        )
        for problem_id in comparison.baseline.results.ids
    ]


def _run_details(name: str, folder: Path, count: int) -> dict[str, dict[str, Any]]:
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in read_records(folder / SCORES, Score).values():
        scores[score.problem_id].append(score)
    path = folder / FAILURES
    failures = read_records(path, Failure) if path.is_file() else {}
    chosen = {}
    for problem_id, found in scores.items():
        found.sort(key=lambda score: -1.0 if score.reward is None else score.reward, reverse=True)
        explained = [s for s in found if (problem_id, s.sample) in failures]
        chosen[problem_id] = _preferring(_spread(found, count), explained)
    wanted = {(score.problem_id, score.sample) for some in chosen.values() for score in some}
    texts = _texts(folder / SAMPLES, wanted)

    def shown(score: Score) -> dict[str, Any]:
        key = score.problem_id, score.sample
        failure = _known(**dataclasses.asdict(failures[key])) if key in failures else None
        verdict, text = _verdict_text(score), texts.get(key)
        return _known(index=score.sample, verdict=verdict, text=text, failure=failure)

    return {
        problem_id: {
            "name": name,
            "rewards": rewards_text([score.reward for score in scores[problem_id]]),
            "samples": list(map(shown, some)),
        }
        for problem_id, some in chosen.items()
    }


def _prompt(row: Mapping[str, Any]) -> tuple[str, str]:
    try:
        return str(row["problem_id"]), _cut(str(row["prompt"]))
    except KeyError as error:
        raise DataError(f"prompt: missing field {error}") from error


def _preferring(chosen: Sequence[Score], explained: Sequence[Score]) -> list[Score]:
    """Return the chosen scores, those without a stored failure swapped for one of equal reward.

    Where none of them has one, the worst gives way to the worst that has: so that a problem with
    stored failures shows one.
    """
    spare = [score for score in explained if score not in chosen]
    found = []
    for score in chosen:
        if score not in explained:
            swap = next((other for other in spare if other.reward == score.reward), None)
            if swap is not None:
                spare.remove(swap)
                score = swap
        found.append(score)
    if spare and len(found) > 1 and not any(score in explained for score in found):
        found[-1] = spare[-1]
    return found


def _spread(scores: Sequence[Score], count: int) -> list[Score]:
    count = min(count, len(scores))
    if count < 2:
        return list(scores[:count])
    return [scores[round(place * (len(scores) - 1) / (count - 1))] for place in range(count)]


def _texts(path: Path, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
    if not path.is_file():
        return {}
    return {
        key_of(sample): _cut(sample.completion)
        for sample in read_typed(path, Sample)
        if key_of(sample) in wanted
    }


def rewards_text(rewards: Iterable[float | None]) -> str:
    """Return how often each reward occurs, the highest first and None last, as text."""
    found = list(rewards)
    counts = Counter(reward for reward in found if reward is not None)
    unscored = len(found) - counts.total()
    parts = [f"{share(reward)} × {counts[reward]}" for reward in sorted(counts, reverse=True)]
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
    """Return the JSON that `problems.js` reads, fit to stand in a script element.

    "ids", "models", "metrics" and "ks"; "values" by metric, model, k and problem; "means" by
    metric, model and k as mean, low and high; "tests" by metric, as places of two models and of k
    and the numbers of the test; "details" of every problem, or of none.
    """
    place = {name: at for at, name in enumerate(comparison.names)}

    def test_row(test: PairedTest) -> list[Any]:
        models = [place[test.first], place[test.second], comparison.ks.index(test.measure.k)]
        numbers = [test.difference, test.low, test.high, test.adjusted_p]
        return [*models, *map(_rounded, numbers), test.mark, test.problems]

    def by_run(read: Callable[[Run, str, int], Any]) -> list[Any]:
        runs, ks = comparison.runs, comparison.ks
        return [[[read(run, m, k) for k in ks] for run in runs] for m in comparison.metrics]

    data = {
        "ids": comparison.baseline.results.ids,
        "models": comparison.names,
        "ks": comparison.ks,
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
