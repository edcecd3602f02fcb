"""Rewards that somebody else computed: a table or a log, as a run of ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.environment import environment
from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import (
    RESULTS,
    SAMPLES,
    SCORES,
    digest_of_texts,
    labelled,
    open_folder,
)
from maxatk.evaluation.results import build_results
from maxatk.exchange import LogRow, read_log
from maxatk.folders import file_digest, write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Problem, Sample, Score


@dataclasses.dataclass(frozen=True)
class OutsideRun:
    """The scores of a file, its samples where it holds completions, and what identifies it."""

    scores: tuple[Score, ...]
    samples: tuple[Sample, ...] | None
    problem_ids: tuple[str, ...]
    settings: Mapping[str, Any]


def score_rewards(
    path: str | Path,
    out: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    problems: Mapping[str, Problem] | None = None,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    column: str | None = None,
    label: str | None = None,
) -> dict[str, Any]:
    """Return the results of rewards that are there already, and write them as a run to `out`.

    `out` gets scores.jsonl, results.json, manifest.json and, where the file holds completions,
    samples.jsonl.

    Args:
        path: The file with the rewards.
        out: The folder to write.
        log_format: Whose file it is, as in `read_log`.
        mapping: Which field of the file is which of ours, as in `read_log`.
        problems: The problems by id: every one of the file must be among them, and their `meta`
            goes into the results.
        more_ks: Further k of the metrics, as in `build_results`.
        threshold: The reward from which a sample passes.
        column: A column that stands in for the reward.
        label: The name of the run in tables and reports; no setting, as in `evaluate`.

    Raises MissingFileError, DataError (every bad line; no reward at all) or InvalidValueError (k,
    column, label, a folder of other settings), all before anything is written.
    """
    named = labelled(label)
    run = read_rewards(path, log_format=log_format, mapping=mapping, problems=problems)
    results = results_of_outside(
        run, more_ks=more_ks, threshold=threshold, column=column, problems=problems
    )
    results["manifest"].update(named)
    out = Path(out)
    open_folder(out, run.settings)
    if run.samples is not None:
        write_jsonl(out / SAMPLES, (sample.to_json() for sample in run.samples))
    write_jsonl(out / SCORES, (score.to_json() for score in run.scores))
    write_json(out / RESULTS, results)
    return results


def results_of_outside(
    run: OutsideRun,
    *,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    column: str | None = None,
    problems: Mapping[str, Problem] | None = None,
) -> dict[str, Any]:
    """Return the results of a file's rewards; the arguments as in `build_results`."""
    return build_results(
        run.problem_ids,
        run.samples,
        run.scores,
        manifest={"settings": run.settings, "environment": environment()},
        more_ks=more_ks,
        threshold=threshold,
        column=column,
        meta=None if problems is None else [problems[i].meta for i in run.problem_ids],
    )


def read_rewards(
    path: str | Path,
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    problems: Mapping[str, Problem] | None = None,
) -> OutsideRun:
    """Return the run that a file of rewards stands for; the errors are those of `score_rewards`."""
    rows = read_log(path, log_format=log_format, mapping=mapping)
    if all(row.reward is None for row in rows):
        raise DataError(
            f"{path}: holds no rewards; the samples can be verified: --samples instead of --rewards"
        )
    ids = _in_order({row.problem_id for row in rows}, problems, path)
    source = {
        "sha256": file_digest(Path(path)),
        "format": log_format or "table",
        "map": dict(mapping or {}),
    }
    return run_of_rows(rows, source=source, ids=ids)


def run_of_rows(
    rows: Sequence[LogRow], *, source: Mapping[str, Any], ids: Sequence[str] | None = None
) -> OutsideRun:
    """Return the run of samples that have an index; `source` says where they come from.

    `ids` are the problems in their order, by default with their numbers in order: 2 before 10.
    """
    found = sorted({row.problem_id for row in rows}, key=_natural) if ids is None else ids
    scores = tuple(_score(row) for row in rows)
    completed = all(row.completion is not None for row in rows)
    samples = tuple(_sample(row) for row in rows) if completed else None
    settings = {
        "rewards": dict(source),
        "problems": {"count": len(found), "sha256": digest_of_texts(found)},
    }
    return OutsideRun(scores, samples, tuple(found), settings)


def _in_order(
    found: set[str], problems: Mapping[str, Problem] | None, path: str | Path
) -> list[str]:
    """Return the ids as the problems stand, else with their numbers in order: 2 before 10."""
    if problems is None:
        return sorted(found, key=_natural)
    strangers = sorted(found - problems.keys(), key=_natural)
    if strangers:
        raise DataError(
            f"{path}: {len(strangers)} problems are not in the problems file, the first "
            f"{strangers[0]!r:.80}"
        )
    missing = [problem_id for problem_id in problems if problem_id not in found]
    if missing:
        raise InvalidValueError(
            f"{path}: no sample for {len(missing)} of {len(problems)} problems, the first "
            f"{missing[0]!r:.80}"
        )
    return list(problems)


def _natural(text: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p]


def _score(row: LogRow) -> Score:
    assert row.sample is not None
    outcome = Outcome.INFRA_ERROR if row.reward is None else Outcome.SCORED
    return Score(row.problem_id, row.sample, row.reward, 0, 0, outcome, 0.0, columns=row.columns)


def _sample(row: LogRow) -> Sample:
    assert row.sample is not None
    return Sample(row.problem_id, row.sample, row.completion or "")
