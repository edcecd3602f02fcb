"""What the page has of single problems: their values and tests, and their prompts and samples."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.errors import DataError
from maxatk.evaluation.failures import FailedTest
from maxatk.evaluation.folder import FAILURES, PROMPTS, SAMPLES, SCORES
from maxatk.evaluation.load import rewarded_scores
from maxatk.evaluation.store import Key, key_of, read_records
from maxatk.jsonl import read_jsonl, read_typed
from maxatk.records import Sample, Score
from maxatk.report.comparison import Comparison, Run
from maxatk.report.decision import Decision
from maxatk.report.paired_tests import PairedTest
from maxatk.report.tables import share

MOST_TEXT = 4000  # characters of a prompt or a completion on the page


@dataclasses.dataclass(frozen=True)
class ShownSample:
    """A sample that stands on the page; `text` and `failure` are None where none is stored."""

    index: int
    verdict: str
    text: str | None
    failure: FailedTest | None

    def to_json(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        failure = None
        if self.failure is not None:
            failure = _without_empty(dataclasses.asdict(self.failure))
        return _without_empty(
            {
                "index": self.index,
                "verdict": self.verdict,
                "text": self.text,
                "failure": failure,
            }
        )


@dataclasses.dataclass(frozen=True)
class RunOfProblem:
    """One model on one problem: how often each reward occurs, and some of the samples."""

    name: str
    rewards: str
    samples: tuple[ShownSample, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        samples = [sample.to_json() for sample in self.samples]
        return {"name": self.name, "rewards": self.rewards, "samples": samples}


@dataclasses.dataclass(frozen=True)
class ProblemDetails:
    """The prompt of a problem, None where none is stored, and the models whose folder has it."""

    prompt: str | None
    runs: tuple[RunOfProblem, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        return _without_empty({"prompt": self.prompt, "runs": [run.to_json() for run in self.runs]})


def problem_details(comparison: Comparison, *, samples: int = 3) -> list[ProblemDetails]:
    """Return prompt and runs of every problem, of runs given as folders of scores.

    So many `samples` of each go from the best to the worst, one with a stored failure among them if
    there is any. Raises DataError for a corrupt file.
    """
    prompts: dict[str, str] = {}
    runs: list[dict[str, RunOfProblem]] = []  # by id of the problem
    for run in comparison.runs:
        if run.folder is None or not (run.folder / SCORES).is_file():
            continue
        runs.append(_run_by_problem(run, run.folder, samples))
        if (run.folder / PROMPTS).is_file():
            prompts.update(read_jsonl(run.folder / PROMPTS, _prompt))
    if not runs:
        return []
    return [
        ProblemDetails(
            prompts.get(problem_id),
            tuple(by_problem[problem_id] for by_problem in runs if problem_id in by_problem),
        )
        for problem_id in comparison.baseline.results.ids
    ]


def _prompt(row: Mapping[str, Any]) -> tuple[str, str]:
    try:
        return str(row["problem_id"]), _cut(str(row["prompt"]))
    except KeyError as error:
        raise DataError(f"prompt: missing field {error}") from error


def _run_by_problem(run: Run, folder: Path, count: int) -> dict[str, RunOfProblem]:
    """Return what is shown of one run, with `count` samples of every problem."""
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in rewarded_scores(folder, column=run.results.column).values():
        scores[score.problem_id].append(score)
    failures: Mapping[Key, FailedTest] = {}
    if (folder / FAILURES).is_file():
        failures = read_records(folder / FAILURES, FailedTest)
    shown = {
        problem_id: _spread(of_problem, count, failures)
        for problem_id, of_problem in scores.items()
    }
    wanted = {key_of(score) for of_problem in shown.values() for score in of_problem}
    texts: dict[Key, str] = {}
    if (folder / SAMPLES).is_file():
        # A run may have gigabytes of completions: only those that are shown are kept.
        for sample in read_typed(folder / SAMPLES, Sample):
            if key_of(sample) in wanted:
                texts[key_of(sample)] = _cut(sample.completion)

    def shown_sample(score: Score) -> ShownSample:
        key = key_of(score)
        return ShownSample(score.sample, _verdict_text(score), texts.get(key), failures.get(key))

    return {
        problem_id: RunOfProblem(
            run.name,
            rewards_text([score.reward for score in scores[problem_id]]),
            tuple(map(shown_sample, of_problem)),
        )
        for problem_id, of_problem in shown.items()
    }


def _spread(scores: Sequence[Score], count: int, failures: Mapping[Key, FailedTest]) -> list[Score]:
    """Return `count` of a problem's scores, evenly from the best to the worst; unscored ones last.

    If none of them has a stored failure, the last gives way to the worst that has one.
    """
    best_first = sorted(
        scores, key=lambda score: -math.inf if score.reward is None else score.reward, reverse=True
    )
    places = np.linspace(0, len(best_first) - 1, min(count, len(best_first))).round()
    spread = [best_first[place] for place in places.astype(int)]
    explained = [score for score in best_first if key_of(score) in failures]
    if explained and count > 1 and not any(key_of(score) in failures for score in spread):
        spread[-1] = explained[-1]
    return spread


def rewards_text(rewards: Iterable[float | None]) -> str:
    """Return how often each reward occurs, the highest first and None last, as text."""
    counts = Counter(rewards)
    unscored = counts.pop(None, 0)
    highest_first = sorted((reward for reward in counts if reward is not None), reverse=True)
    parts = [f"{share(reward)} × {counts[reward]}" for reward in highest_first]
    if unscored:
        parts.append(f"unscored × {unscored}")
    return ", ".join(parts)


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
    comparison: Comparison, decisions: Sequence[Decision], details: Sequence[ProblemDetails]
) -> str:
    """Return the JSON that `problems.js` reads, fit to stand in a script element.

    "values" has the values of the problems by metric, run and k, "means" the mean and the ends of
    its interval, and "tests" the tests of all pairs of models by metric.
    """
    values = []
    means = []
    for metric in comparison.metrics:
        values.append([_values_by_k(run, metric, comparison.ks) for run in comparison.runs])
        means.append([_means_by_k(run, metric, comparison.ks) for run in comparison.runs])
    data = {
        "ids": comparison.baseline.results.ids,
        "models": comparison.names,
        "ks": comparison.ks,
        "metrics": comparison.metrics,
        "values": values,
        "means": means,
        "tests": [
            [_test_row(test, comparison) for test in decision.tests] for decision in decisions
        ],
        "details": [problem.to_json() for problem in details],
    }
    # Nothing in a text may end the element, nor begin a comment in it.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _values_by_k(run: Run, metric: str, ks: Sequence[int]) -> list[list[float | None]]:
    columns = run.results.per_problem.values[metric]
    return [[_rounded(value) for value in columns[k]] for k in ks]


def _means_by_k(run: Run, metric: str, ks: Sequence[int]) -> list[list[float | None]]:
    means = [run.metric(metric, k) for k in ks]
    return [[mean.mean, mean.low, mean.high] for mean in means]


def _test_row(test: PairedTest, comparison: Comparison) -> list[Any]:
    """Return a test as `problems.js` reads it, with models and k by their places."""
    return [
        comparison.names.index(test.first),
        comparison.names.index(test.second),
        comparison.ks.index(test.measure.k),
        _rounded(test.difference),
        _rounded(test.low),
        _rounded(test.high),
        _rounded(test.adjusted_p),
        test.mark,
        test.problems,
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something: no empty text and no None."""
    return {name: value for name, value in fields.items() if value not in ("", None)}
