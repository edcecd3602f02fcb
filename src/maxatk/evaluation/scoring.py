"""Verify samples that exist already, ours or another tool's, in a folder that can be resumed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.failures import STORED, check_stored
from maxatk.evaluation.folder import (
    labelled,
    manifest_of,
    open_folder,
    verified_settings,
    write_results,
)
from maxatk.evaluation.statistics.intervals import check_ks, check_threshold
from maxatk.evaluation.submissions import Extract, Submission, read_submissions
from maxatk.evaluation.verifying import (
    BATCH,
    BY_TESTS,
    UnitProgress,
    reward_or_tests,
    scoring,
    verifier_or_default,
)
from maxatk.folders import file_digest
from maxatk.problems.load import read_problems
from maxatk.records import Problem
from maxatk.verifier import Verifier, extract_code


def score(
    samples_path: str | Path,
    problems: str | Path | Sequence[Problem],
    out: str | Path,
    *,
    verifier: Verifier | None = None,
    limit: int | None = None,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    reward: Any = BY_TESTS,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    store_failures: int = STORED,
    problems_name: str | None = None,
    label: str | None = None,
    progress: UnitProgress | None = None,
) -> dict[str, Any]:
    """Verify an existing samples file and return the results.

    `out` gets scores.jsonl, results.json and manifest.json. The same call continues one that was
    killed, and one whose samples file or problems have grown at their end verifies what is new.

    Args:
        samples_path: A file of samples, ours or another tool's.
        problems: A benchmark's name, a problems.jsonl, or problems.
        out: The folder of the run.
        verifier: One that is open, and stays so; one of the defaults where None.
        limit: Take only the first problems and their samples.
        log_format: Which tool wrote the file, as in `read_submissions`.
        mapping: Where a field is in a row, as in `read_submissions`.
        reward: What a recipe may say under that name (see `read_spec`); by default the share of
            tests that passed.
        more_ks: Further k, as in `build_results`.
        threshold: The reward from which a sample passes.
        store_failures: Of how many failed samples of a problem the first failed test is stored,
            0 to 1,000; of none where the reward is not that of the tests.
        problems_name: Where `problems` were loaded from, for the manifest; their name or path
            where they are given by it.
        label: The name of the run in tables and reports; no setting, as in `evaluate`.
        progress: Called with (done, total, "scores") from the verifying thread.

    Raises MissingFileError, DataError (an unreadable line, a sample of an unknown problem, a
    problem without samples) or InvalidValueError (k, settings, label), all before any verification.
    """
    started = time.monotonic()
    check_stored(store_failures)
    check_threshold(threshold)
    named = labelled(label)
    chosen, source = read_problems(problems)
    chosen, submissions = read_submitted(
        samples_path,
        chosen,
        limit=limit,
        log_format=log_format,
        mapping=mapping,
        extract=extract_code if verifier is None else verifier.program_of,
    )
    check_ks(more_ks, _fewest(submissions))
    out = Path(out)
    with verifier_or_default(verifier) as opened:
        described = scored_settings(samples_path, chosen, opened, reward)
        rewarded = reward_or_tests(reward, chosen, opened)
        open_folder(out, described, grows=list(chosen.values()), samples=Path(samples_path))
        with scoring(
            out,
            chosen,
            opened,
            reward=rewarded,
            total=len(submissions),
            store_failures=store_failures,
            progress=progress,
        ) as (scores, verify):
            for start in range(0, len(submissions), BATCH):
                verify(submissions[start : start + BATCH])
        manifest = manifest_of(described, opened, problems_name or source, started)
    manifest.update({"samples_file": str(samples_path), **named})
    samples = {(s.sample.problem_id, s.sample.sample): s.sample for s in submissions}
    return write_results(out, chosen, samples, scores.records, manifest, more_ks, threshold)


def read_submitted(
    samples_path: str | Path,
    problems: Mapping[str, Problem],
    *,
    limit: int | None,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    extract: Extract = extract_code,
) -> tuple[dict[str, Problem], list[Submission]]:
    """Return the problems that are scored and their submissions, every line of the file checked.

    Raises as `score`.
    """
    if limit is not None and limit < 1:
        raise InvalidValueError(f"limit: must be at least 1, got {limit}")
    submissions = read_submissions(
        samples_path, problems, log_format=log_format, mapping=mapping, extract=extract
    )
    chosen = dict(itertools.islice(problems.items(), limit))
    submissions = [found for found in submissions if found.sample.problem_id in chosen]
    _refuse_unsampled(submissions, chosen, samples_path)
    return chosen, submissions


def scored_settings(
    samples_path: str | Path,
    problems: Mapping[str, Problem],
    verifier: Verifier,
    reward: Any = BY_TESTS,
) -> dict[str, Any]:
    """Return what the scores depend on, for the manifest."""
    path = Path(samples_path)
    samples = {"sha256": file_digest(path), "bytes": path.stat().st_size}
    return {"samples": samples, **verified_settings(problems, verifier, reward)}


def _refuse_unsampled(
    submissions: Sequence[Submission], problems: Mapping[str, Problem], path: str | Path
) -> None:
    sampled = {found.sample.problem_id for found in submissions}
    missing = [problem_id for problem_id in problems if problem_id not in sampled]
    if missing:
        raise DataError(
            f"{path}: no sample for {len(missing)} of {len(problems)} problems, the first "
            f"{missing[0]!r}; score the problems that were sampled, or sample the rest"
        )


def _fewest(submissions: Sequence[Submission]) -> int:
    counts: dict[str, int] = {}
    for found in submissions:
        counts[found.sample.problem_id] = counts.get(found.sample.problem_id, 0) + 1
    return min(counts.values())
