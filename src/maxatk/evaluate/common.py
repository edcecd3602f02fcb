"""What every run has, whether it samples first or judges samples that exist."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluate.folder import RESULTS
from maxatk.evaluate.manifest import environment, problems_digest
from maxatk.evaluate.results import build_results
from maxatk.evaluate.settings import SamplingSettings
from maxatk.evaluate.store import Store
from maxatk.folders import write_json
from maxatk.jsonl import read_jsonl
from maxatk.problems import problems_by_id
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import Verifier, problem_job


def read_problems(
    problems: str | Path | Sequence[Problem],
) -> tuple[dict[str, Problem], str | None]:
    """Return the problems by id, and the name of the file they came from, if they did.

    Raises MissingFileError, DataError (no problems, an id that occurs twice) or InvalidValueError
    (an unknown rule of comparison).
    """
    if isinstance(problems, (str, Path)):
        source: str | None = str(problems)
        problems = list(read_jsonl(problems, Problem.from_json))
    else:
        source = None
    by_id = problems_by_id(problems, source=source or "problems")
    for problem in by_id.values():
        problem_job("", problem)  # an unknown comparison rule is refused now, not in the middle
    return by_id, source


def judged_settings(problems: Mapping[str, Problem], verifier: Verifier) -> dict[str, Any]:
    """Return what decides a verdict, for the manifest: the problems and the judge's limits."""
    return {
        "problems": {
            "count": len(problems),
            "sha256": problems_digest(list(problems.values())),
        },
        "judge": verifier.limits,
    }


def sampled_settings(
    model: Mapping[str, Any],
    sampling: SamplingSettings,
    problems: Mapping[str, Problem],
    verifier: Verifier,
) -> dict[str, Any]:
    """Return what decides samples and their verdicts, for the manifest of an evaluation.

    `model` is what the backend says of itself.
    """
    return {
        "model": dict(model),
        "sampling": sampling.to_json(),
        **judged_settings(problems, verifier),
    }


def manifest_of(
    described: Mapping[str, Any], verifier: Verifier, source: str | None, started: float
) -> dict[str, Any]:
    """Return the manifest of a finished run."""
    return {
        "settings": described,
        "environment": environment(),
        "isolation": dict(verifier.isolation),
        "problems_file": source,
        "seconds": round(time.monotonic() - started, 3),
    }


@contextlib.contextmanager
def verifier_or_default(verifier: Verifier | None) -> Iterator[Verifier]:
    """Yield the verifier that was passed in, which stays open, or one of its own."""
    if verifier is not None:
        yield verifier
        return
    with Verifier() as own:
        yield own


def refuse_strangers(store: Store[Any], problems: Mapping[str, Problem]) -> None:
    """Raise DataError if a file of the folder has a sample of a problem that is not given."""
    for problem_id, sample in store.records:
        if problem_id not in problems:
            raise DataError(f"{store.path}: sample {sample} of an unknown problem {problem_id!r}")


def write_results(
    out: Path,
    problems: Mapping[str, Problem],
    samples: Mapping[Any, Sample],
    scores: Mapping[Any, Score],
    manifest: Mapping[str, Any],
    ks: Sequence[int] | None,
) -> dict[str, Any]:
    """Compute the results, write them to the folder and return them."""
    results = build_results(
        list(problems), samples.values(), scores.values(), manifest=manifest, ks=ks
    )
    write_json(out / RESULTS, results)
    return results
