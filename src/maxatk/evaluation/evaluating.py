"""Evaluation runs: sample, verify and count, in a folder that can be resumed after any kill."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.evaluation.backends import Backend, ModelSettings, load_backend
from maxatk.evaluation.failures import STORED, check_stored
from maxatk.evaluation.folder import (
    SAMPLES,
    labelled,
    manifest_of,
    open_folder,
    recorded_batch_size,
    refuse_strangers,
    sampled_settings,
    write_results,
)
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.evaluation.statistics.intervals import check_ks, check_threshold
from maxatk.evaluation.store import Store
from maxatk.evaluation.submissions import Submission, submission
from maxatk.evaluation.verifying import (
    BY_TESTS,
    UnitProgress,
    reward_or_tests,
    scoring,
    verifier_or_default,
)
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.masking import masked
from maxatk.models import prompt_difference
from maxatk.problems.load import read_problems
from maxatk.records import Problem, Sample, Score
from maxatk.verifier import Verifier

_log = logging.getLogger(__name__)


def evaluate(
    model: str | Path,
    problems: str | Path | Sequence[Problem],
    out: str | Path,
    *,
    settings: SamplingSettings | None = None,
    model_settings: ModelSettings | None = None,
    sampler: Backend | None = None,
    verifier: Verifier | None = None,
    reward: Any = BY_TESTS,
    more_ks: Sequence[int] = (),
    threshold: float = 1.0,
    store_failures: int = STORED,
    problems_name: str | None = None,
    label: str | None = None,
    progress: UnitProgress | None = None,
) -> dict[str, Any]:
    """Sample `model` on every problem, verify the programs, and return the results.

    `out` gets samples.jsonl, scores.jsonl, results.json (what is returned) and manifest.json.
    Verification runs beside sampling. The same call continues a run that was killed, with the same
    samples as an uninterrupted one; a call with other settings is refused, except that a
    run may grow: by more samples, and by problems that follow those it has.

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name, a problems.jsonl, or problems.
        out: The folder of the run.
        settings: How completions are sampled; the paper's settings where None.
        model_settings: How the model is run, on the backend "hf" where None. Without a batch size
            the folder's is taken, else one that fits the memory.
        sampler: A backend of these that is loaded already, and stays so; loaded here where None.
        verifier: One that is open, and stays so; one of the defaults where None.
        reward: What a recipe may say under that name (see `read_spec`); by default the share of
            tests that passed.
        more_ks: As in `build_results`.
        threshold: The reward from which a sample passes.
        store_failures: Of how many failed samples of a problem the first failed test is stored,
            0 to 1,000; of none where the reward is not that of the tests.
        problems_name: Where `problems` were loaded from, for the manifest; their name or path
            where they are given by it.
        label: The name of the run in tables and reports; stored in results.json, and no setting:
            a run goes on under another label.
        progress: Called with (done, total, "samples" or "scores"), from two threads.

    Raises MissingFileError (problems, model), DataError (problems, the folder's files),
    InvalidValueError (settings; a difference to the folder's manifest), all before any sampling;
    ServerError when a server fails for good: the same call resumes where it stopped.
    """
    started = time.monotonic()
    check_stored(store_failures)
    named = labelled(label)
    check_threshold(threshold)
    settings = settings or SamplingSettings()
    check_ks(more_ks, settings.samples)
    chosen, source = read_problems(problems)
    out = Path(out)
    model_settings = model_settings or ModelSettings()
    batch_size = model_settings.batch_size or recorded_batch_size(out)
    if sampler is None:
        asked = dataclasses.replace(model_settings, batch_size=batch_size)
        sampler = load_backend(str(model), asked)
    sampler.check({problem.id: problem.prompt for problem in chosen.values()}, settings)
    training = _training_of(Path(model), model_settings)
    with verifier_or_default(verifier) as opened:
        described = sampled_settings(sampler.describe(), settings, chosen, opened, reward)
        rewarded = reward_or_tests(reward, chosen, opened)
        open_folder(out, described, grows=list(chosen.values()))
        with Store(out / SAMPLES, Sample.from_json) as samples:
            refuse_strangers(samples, chosen)
            found = len(samples.records)
            with scoring(
                out,
                chosen,
                opened,
                reward=rewarded,
                total=len(chosen) * settings.samples,
                store_failures=store_failures,
                progress=progress,
            ) as (scores, verify):
                verify(_programs(_unscored(samples, scores), chosen, opened))
                for drawn in _sampled(sampler, chosen, settings, samples, progress):
                    verify(_programs(drawn, chosen, opened))
        manifest = manifest_of(described, opened, problems_name or source, started)
    manifest.update({"samples_found": found, **training, **named})
    return write_results(out, chosen, samples.records, scores.records, manifest, more_ks, threshold)


def _unscored(samples: Store[Sample], scores: Store[Score]) -> list[Sample]:
    return [sample for key, sample in samples.records.items() if key not in scores.records]


def _programs(
    samples: Sequence[Sample], problems: Mapping[str, Problem], verifier: Verifier
) -> list[Submission]:
    return [submission(s, problems[s.problem_id], verifier.program_of) for s in samples]


def _training_of(model: Path, settings: ModelSettings) -> dict[str, Any]:
    """Return the recipe that a model folder was trained with, if any; warn of other prompts."""
    if not (model / TRAIN_RECORD).is_file():
        return {}
    recipe: dict[str, Any] = read_json(model / TRAIN_RECORD).get("recipe", {})
    difference = prompt_difference(recipe.get("prompt") or {}, settings.prompt)
    if difference is not None:
        _log.warning("%s was trained on other prompts: %s", model, difference)
    return {"training": masked(recipe)}


def _sampled(
    sampler: Backend,
    problems: Mapping[str, Problem],
    settings: SamplingSettings,
    samples: Store[Sample],
    progress: UnitProgress | None,
) -> Iterator[list[Sample]]:
    # In the order of the problems, and stored before they are handed on: so the files of an
    # interrupted run are prefixes of those of an uninterrupted one.
    total = len(problems) * settings.samples
    missing = [
        Request(
            problem.id,
            problem.prompt,
            [i for i in range(settings.samples) if (problem.id, i) not in samples.records],
        )
        for problem in problems.values()
    ]
    if progress is not None:
        progress(len(samples.records), total, "samples")
    if not any(request.indices for request in missing):
        return
    for drawn in sampler.sample(missing, settings):
        samples.append(drawn)
        if progress is not None:
            progress(len(samples.records), total, "samples")
        yield drawn
