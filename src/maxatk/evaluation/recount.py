"""The results of a folder from its files alone: no model, no problems, no verification."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, unknown_name
from maxatk.evaluation.folder import MANIFEST, RESULTS, SAMPLES, SCORES
from maxatk.evaluation.results import build_results
from maxatk.evaluation.tally import SampleTally, ScoreTally
from maxatk.folders import read_json
from maxatk.jsonl import read_jsonl
from maxatk.records import Outcome, Sample, Score


def results_of_folder(
    folder: str | Path,
    *,
    ks: Sequence[int] | None = None,
    more_ks: Sequence[int] = (),
    samples: str | Path | None = None,
    threshold: float | None = None,
    column: str | None = None,
) -> dict[str, Any]:
    """Return the results of the scores in a folder, as `evaluate` and `score` compute them.

    The problems are those of scores.jsonl, in the order of results.json, else in its own. Entropy
    and distinct completions are None without samples. The manifest is that of the folder, or
    empty.

    Args:
        folder: The folder of the run.
        ks: The k of the metrics, as in `build_results`.
        more_ks: Further k beside the default ones, as in `build_results`.
        samples: The samples file; the folder's samples.jsonl if not given.
        threshold: The reward from which a sample passes; that of results.json, else 1.
        column: A column of the scores that stands in for the reward.

    Raises MissingFileError without scores.jsonl, DataError for a corrupt line or no scores at
    all, InvalidValueError for a k above the number of samples or a column that no score has.
    """
    folder = Path(folder)
    scores = _score_tally(folder / SCORES, column)
    if not scores.problem_ids:
        raise DataError(f"{folder / SCORES}: holds no scores")
    path = Path(samples) if samples is not None else folder / SAMPLES
    tally = _sample_tally(path) if samples is not None or path.is_file() else None
    before = read_json(folder / RESULTS) if (folder / RESULTS).is_file() else {}
    manifest = before.get("manifest", {})
    if not before and (folder / MANIFEST).is_file():
        manifest = read_json(folder / MANIFEST)
    ids, meta = scores.problem_ids, None
    listed = before.get("per_problem", {})
    if set(listed.get("ids", ())) == set(ids):
        ids, meta = listed["ids"], listed.get("meta")
    return build_results(
        ids,
        tally,
        scores,
        manifest=manifest,
        ks=ks,
        more_ks=more_ks,
        threshold=before.get("threshold", 1.0) if threshold is None else threshold,
        column=column,
        meta=meta,
    )


_score_fields = operator.itemgetter(
    *("problem_id", "sample", "reward", "outcome", "passed", "total", "seconds")
)
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


def _score_tally(path: Path, column: str | None) -> ScoreTally:
    tally = ScoreTally()
    columns: set[str] = set()

    def add(row: Mapping[str, Any]) -> None:
        # What `Score.from_json` checks, without the record: making it takes longer than the rest.
        try:
            problem_id, sample, reward, outcome, _, _, _ = _score_fields(row)
        except KeyError:
            Score.from_json(row)  # raises, with the name of the field
            raise
        if outcome not in _OUTCOMES:
            raise DataError(f"{outcome!r} is not a valid Outcome")
        if column is not None:
            found = row.get("columns", {})
            columns.update(found)
            reward = found.get(column)
        tally.add(problem_id, sample, reward, outcome, row.get("program"), row.get("columns", {}))

    for _ in read_jsonl(path, add):
        pass
    if column is not None and column not in columns:
        raise unknown_name("column", column, columns)
    return tally


def _sample_tally(path: Path) -> SampleTally:
    tally = SampleTally()

    def add(row: Mapping[str, Any]) -> None:
        get = row.get
        text = get("completion")
        if text is None or "problem_id" not in row:
            Sample.from_json(row)  # raises
        if isinstance(text, str):  # decoded whole
            text = hash(json.dumps(text)[1:-1])
        tally.add(row["problem_id"], text, get("tokens"), get("entropy"), get("finish_reason"))

    for _ in read_jsonl(path, add, shorten=_with_hash):
        pass
    return tally


_BEFORE, _AFTER = ', "completion": "', '", "tokens": '


def completion_span(line: str) -> tuple[int, int] | None:
    """Return where the completion's JSON text is in a line of samples.jsonl, without its quotes.

    In a line that this package has written, a quote within a string follows a backslash, so that
    the marks around a completion cannot occur within one. None for any other line.
    """
    start, end = line.find(_BEFORE), line.rfind(_AFTER)
    return (start + len(_BEFORE), end) if 0 < start < end else None


def _with_hash(line: str) -> str:
    # Decoding the completions would be most of the work, and only whether they are equal matters.
    span = completion_span(line)
    if span is None:
        return line
    start, end = span
    return f"{line[: start - 1]}{hash(line[start:end])}{line[end + 1 :]}"
