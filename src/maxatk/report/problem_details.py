"""What the page shows of single problems: their prompts, and of every model some samples."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.errors import DataError, counted
from maxatk.evaluation.failures import FailedTest
from maxatk.evaluation.folder import FAILURES, PROMPTS, SAMPLES, SCORES
from maxatk.evaluation.load import rewarded_scores
from maxatk.evaluation.store import Key, key_of, read_records
from maxatk.jsonl import read_jsonl, read_typed
from maxatk.records import Sample, Score
from maxatk.report.comparison import Comparison, Run
from maxatk.report.tables import three_decimals
from maxatk.writing import without_lone_surrogates

MOST_TEXT = 4000  # characters of a prompt or a completion on the page
_MOST_REWARDS = 12  # different ones of a problem that are listed


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
    failures: Mapping[Key, FailedTest] = {}
    if (folder / FAILURES).is_file():
        failures = read_records(folder / FAILURES, FailedTest)
    scores = _scores_by_problem(run, folder)
    shown = {
        name: _spread(problem_scores, count, failures) for name, problem_scores in scores.items()
    }
    texts = _texts_of(
        folder, {key_of(score) for problem_scores in shown.values() for score in problem_scores}
    )
    by_problem = {}
    for name, problem_scores in shown.items():
        samples = []
        for score in problem_scores:
            key = key_of(score)
            verdict = _verdict_text(score)
            samples.append(ShownSample(score.sample, verdict, texts.get(key), failures.get(key)))
        rewards = rewards_text(score.reward for score in scores[name])
        by_problem[name] = RunOfProblem(run.name, rewards, tuple(samples))
    return by_problem


def _scores_by_problem(run: Run, folder: Path) -> dict[str, list[Score]]:
    """Return the scores of every problem, with what the run takes for their reward."""
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in rewarded_scores(folder, column=run.results.column).values():
        scores[score.problem_id].append(score)
    return scores


def _texts_of(folder: Path, wanted: Set[Key]) -> dict[Key, str]:
    """Return the completions of these samples: a run may have gigabytes of others."""
    texts: dict[Key, str] = {}
    if (folder / SAMPLES).is_file():
        for sample in read_typed(folder / SAMPLES, Sample):
            if key_of(sample) in wanted:
                texts[key_of(sample)] = _cut(sample.completion)
    return texts


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
    """Return how often each reward occurs, the highest first and None last, as text.

    Of more than `_MOST_REWARDS` those in the middle are counted together.
    """
    rewards = list(rewards)
    scored = sorted((reward for reward in rewards if reward is not None), reverse=True)
    counts = Counter(map(three_decimals, scored))  # as they are printed, the highest first
    parts = [f"{reward} × {count}" for reward, count in counts.items()]
    if len(parts) > _MOST_REWARDS:
        end = _MOST_REWARDS // 2
        between = sum(list(counts.values())[end:-end])
        parts = [*parts[:end], f"{between} between", *parts[-end:]]
    if len(scored) < len(rewards):
        parts.append(f"unscored × {len(rewards) - len(scored)}")
    return ", ".join(parts)


def _verdict_text(score: Score) -> str:
    parts = ["unscored" if score.reward is None else f"reward {three_decimals(score.reward)}"]
    if score.error is not None:
        return f"{parts[0]}, {score.error}"
    if score.total:  # a reward function or a file of rewards has no tests
        parts.append(f"{score.passed} of {counted(score.total, 'test')}")
    return ", ".join([*parts, str(score.outcome).replace("_", " ")])


def _cut(text: str) -> str:
    text = without_lone_surrogates(text)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " …"


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something: no empty text and no None."""
    return {name: value for name, value in fields.items() if value not in ("", None)}
