"""Problem by problem: the prompt, the rewards of every run in order, and a few of its samples."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluation.failures import Failure
from maxatk.evaluation.folder import FAILURES, PROMPTS, SAMPLES, SCORES
from maxatk.evaluation.recount import completion_span
from maxatk.evaluation.sources import ResultsSource
from maxatk.evaluation.store import read_records
from maxatk.jsonl import read_jsonl
from maxatk.records import Problem, Sample, Score
from maxatk.report.numbers import share

MOST_TEXT = 4000  # characters of a prompt or a completion on the page


@dataclasses.dataclass(frozen=True)
class ShownSample:
    """One sample of a problem: its verdict, its text ("" where unknown), and why it failed.

    `failure` is None where the sample passed, and where the run's folder does not tell.
    """

    index: int
    verdict: str
    text: str
    failure: Failure | None = None


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
    the folder has a samples.jsonl. Of equal rewards those are preferred whose failure is stored.
    Prompts are those of the `problems`, else of the folders. There are no details without such a
    folder. Raises DataError for a corrupt file.
    """
    folders = {
        name: Path(source)
        for name, source in results.items()
        if not isinstance(source, Mapping) and (Path(source) / SCORES).is_file()
    }
    if not folders:
        return []
    prompts = {}
    for folder in folders.values():
        prompts.update(_prompts(folder))
    prompts.update({problem.id: _cut(problem.prompt) for problem in problems})
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
    failures = _failures(folder)
    chosen = {}
    for problem_id, found in scores.items():
        found.sort(key=lambda score: -1.0 if score.reward is None else score.reward, reverse=True)
        explained = [s for s in found if (problem_id, s.sample) in failures]
        chosen[problem_id] = _preferring(_spread(found, count), explained)
    wanted = {(score.problem_id, score.sample) for some in chosen.values() for score in some}
    texts = _texts(folder / SAMPLES, wanted)

    def shown(score: Score) -> ShownSample:
        key = score.problem_id, score.sample
        return ShownSample(
            score.sample, _verdict_text(score), texts.get(key, ""), failures.get(key)
        )

    return {
        problem_id: RunDetail(name, _rewards_text(scores[problem_id]), tuple(map(shown, some)))
        for problem_id, some in chosen.items()
    }


def _prompts(folder: Path) -> dict[str, str]:
    if not (folder / PROMPTS).is_file():
        return {}
    return dict(read_jsonl(folder / PROMPTS, _prompt))


def _prompt(row: Mapping[str, Any]) -> tuple[str, str]:
    try:
        return str(row["problem_id"]), _cut(str(row["prompt"]))
    except KeyError as error:
        raise DataError(f"prompt: missing field {error}") from error


def _failures(folder: Path) -> Mapping[tuple[str, int], Failure]:
    path = folder / FAILURES
    return read_records(path, Failure.from_json) if path.is_file() else {}


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
