"""The results of a folder from its files alone: no model, no problems, no judging."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluate.manifest import MANIFEST
from maxatk.evaluate.results import build_results
from maxatk.evaluate.store import read_records
from maxatk.evaluate.tally import SampleTally
from maxatk.folders import read_json
from maxatk.records import Sample, Score, json_object, read_jsonl

SAMPLES, SCORES, RESULTS = "samples.jsonl", "scores.jsonl", "results.json"


def results_of_folder(
    folder: str | Path, *, ks: Sequence[int] | None = None, samples: str | Path | None = None
) -> dict[str, Any]:
    """Return the results of the scores in a folder, as `evaluate` and `score` compute them.

    The problems are those of scores.jsonl, in its order; `ks` as in `build_results`. Entropy and
    distinct completions come from `samples`, else from the folder's samples.jsonl, and are None
    without either. The manifest is that of the folder, or empty.

    Raises MissingFileError without scores.jsonl, DataError for a corrupt line or no scores at
    all, InvalidValueError for a k above the number of samples.
    """
    folder = Path(folder)
    scores = read_records(folder / SCORES, Score.from_json)
    if not scores:
        raise DataError(f"{folder / SCORES}: holds no scores")
    path = Path(samples) if samples is not None else folder / SAMPLES
    tally = _tally(path) if samples is not None or path.is_file() else None
    manifest: dict[str, Any] = {}
    if (folder / RESULTS).is_file():
        manifest = read_json(folder / RESULTS).get("manifest", {})
    elif (folder / MANIFEST).is_file():
        manifest = read_json(folder / MANIFEST)
    problem_ids = list(dict.fromkeys(problem_id for problem_id, _ in scores))
    return build_results(problem_ids, tally, scores.values(), manifest=manifest, ks=ks)


_BEFORE, _AFTER = ', "completion": "', '", "tokens": '


def _tally(path: Path) -> SampleTally:
    tally = SampleTally()

    def add(row: Mapping[str, Any]) -> None:
        get = row.get
        text = get("completion")
        if text is None or "problem_id" not in row:
            Sample.from_json(row)  # raises
        if isinstance(text, str):  # decoded whole
            text = hash(json.dumps(text)[1:-1])
        tally.add(row["problem_id"], text, get("tokens"), get("entropy"))

    for _ in read_jsonl(path, add, decode=short_object):
        pass
    return tally


def short_object(line: str) -> Mapping[str, Any]:
    """Return the object of a line with the hash of the completion's JSON text in its place.

    Decoding the completions would be most of the work, and only whether they are equal matters.
    In a line that this package has written, a quote within a string follows a backslash, so these
    two marks cannot occur within one. Any other line is decoded whole.
    """
    start, end = line.find(_BEFORE), line.rfind(_AFTER)
    if not 0 < start < end:
        return json_object(line)
    text = hash(line[start + len(_BEFORE) : end])
    return json_object(f"{line[:start]}{_BEFORE[:-1]}{text}{line[end + 1 :]}")
