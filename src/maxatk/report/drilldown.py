"""Problem by problem: the prompt, the rewards of every run in order, and a few of its samples."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.recount import completion_span
from maxatk.evaluation.sources import ResultsSource
from maxatk.evaluation.store import read_records
from maxatk.jsonl import read_jsonl
from maxatk.records import Problem, Sample, Score
from maxatk.report.numbers import share

MOST_TEXT = 4000  # characters of a prompt or a completion on the page


@dataclasses.dataclass(frozen=True)
class ShownSample:
    """One sample of a problem: what it is, its verdict, and its text (or "" where unknown)."""

    index: int
    verdict: str
    text: str


@dataclasses.dataclass(frozen=True)
class RunDetail:
    """One run on one problem: its rewards from the highest, as text, and samples along them."""

    name: str
    rewards: str
    samples: tuple[ShownSample, ...]


@dataclasses.dataclass(frozen=True)
class ProblemDetail:
    """One problem with what every run made of it; the prompt is "" where it is unknown."""

    id: str
    prompt: str
    runs: tuple[RunDetail, ...]


def problem_details(
    results: Mapping[str, ResultsSource],
    problem_ids: Sequence[str],
    *,
    problems: Iterable[Problem] = (),
    samples: int = 3,
) -> list[ProblemDetail]:
    """Return the details of the problems, from the runs given as folders with a scores.jsonl.

    `samples` of every run are shown, spread from the best to the worst, with their texts where
    the folder has a samples.jsonl. There are none without such a folder. Raises DataError for a
    corrupt file.
    """
    folders = {
        name: Path(source)
        for name, source in results.items()
        if not isinstance(source, Mapping) and (Path(source) / SCORES).is_file()
    }
    if not folders:
        return []
    prompts = {problem.id: _cut(problem.prompt) for problem in problems}
    runs = {name: _run_details(name, folder, samples) for name, folder in folders.items()}
    return [
        ProblemDetail(
            problem_id,
            prompts.get(problem_id, ""),
            tuple(found[problem_id] for found in runs.values() if problem_id in found),
        )
        for problem_id in problem_ids
    ]


def _run_details(name: str, folder: Path, count: int) -> dict[str, RunDetail]:
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in read_records(folder / SCORES, Score.from_json).values():
        scores[score.problem_id].append(score)
    chosen = {}
    for problem_id, found in scores.items():
        found.sort(key=lambda score: -1.0 if score.reward is None else score.reward, reverse=True)
        chosen[problem_id] = _spread(found, count)
    wanted = {(score.problem_id, score.sample) for some in chosen.values() for score in some}
    texts = _texts(folder / SAMPLES, wanted)
    return {
        problem_id: RunDetail(
            name,
            _rewards_text(scores[problem_id]),
            tuple(
                ShownSample(
                    score.sample, _verdict_text(score), texts.get((problem_id, score.sample), "")
                )
                for score in some
            ),
        )
        for problem_id, some in chosen.items()
    }


def _spread(scores: Sequence[Score], count: int) -> list[Score]:
    count = min(count, len(scores))
    if count < 2:
        return list(scores[:count])
    return [scores[round(place * (len(scores) - 1) / (count - 1))] for place in range(count)]


def _texts(path: Path, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
    if not path.is_file():
        return {}
    texts: dict[tuple[str, int], str] = {}

    def shorten(line: str) -> str:
        # A few lines of many are shown: the completions of the others are not even decoded.
        span = completion_span(line)
        if span is None:
            return line
        try:
            row = json.loads(f'{line[: span[0]]}"}}')
        except ValueError:  # reported by whoever decodes the line
            return line
        shown = (row.get("problem_id"), row.get("sample")) in wanted
        return line if shown else f"{line[: span[0]]}{line[span[1] :]}"

    def keep(row: Mapping[str, Any]) -> None:
        key = (row.get("problem_id"), row.get("sample"))
        if key in wanted:
            sample = Sample.from_json(row)
            texts[sample.problem_id, sample.sample] = _cut(sample.completion)

    for _ in read_jsonl(path, keep, shorten=shorten):
        pass
    return texts


def _rewards_text(scores: Sequence[Score]) -> str:
    counts = Counter(score.reward for score in scores)
    unscored = counts.pop(None, 0)
    parts = [f"{share(reward)} × {count}" for reward, count in counts.items()]
    return ", ".join([*parts, *([f"unscored × {unscored}"] if unscored else [])])


def _verdict_text(score: Score) -> str:
    reward = "unscored" if score.reward is None else f"reward {share(score.reward)}"
    outcome = str(score.outcome).replace("_", " ")
    return f"{reward}, {score.passed} of {score.total} tests, {outcome}"


def _cut(text: str) -> str:
    # A lone surrogate, which a model can produce, cannot be written to a file.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " …"
