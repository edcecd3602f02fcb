"""What an evaluation or a scoring would do, without doing it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.evaluation.backends import Backend, ModelSettings, load_backend
from maxatk.evaluation.folder import (
    SAMPLES,
    SCORES,
    check_folder,
    recorded_batch_size,
    sampled_settings,
)
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.evaluation.scoring import read_submitted, scored_settings
from maxatk.evaluation.submissions import submission
from maxatk.evaluation.verifying import BY_TESTS, reward_batch, reward_or_tests
from maxatk.problems.load import read_problems
from maxatk.records import Problem
from maxatk.verifier import Verifier, problem_job

PROBE = 16  # samples


@dataclasses.dataclass(frozen=True)
class EvaluationPlan:
    """The size of an evaluation, and the seconds that a probe says it takes.

    `samples` are to be drawn in all, `found` of them are in the folder; `most_tokens` is the bound
    of the new tokens of those missing, `expected_tokens` what they are if all are as long as the
    `probed` ones (None where the backend does not count). Sampling and verification go on side by
    side, so `seconds` is the longer of `sampling_s` and `verifying_s`.
    """

    problems: int
    samples: int
    found: int
    most_tokens: int
    expected_tokens: int | None
    probed: int
    sampling_s: float
    verifying_s: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return dataclasses.asdict(self)


def plan(
    model: str | Path,
    problems: Sequence[Problem],
    out: str | Path,
    *,
    verifier: Verifier,
    settings: SamplingSettings,
    model_settings: ModelSettings,
    reward: Any = BY_TESTS,
) -> EvaluationPlan:
    """Return the plan of `evaluate` with these arguments; nothing is written to `out`.

    The first 16 samples of the run are drawn and verified. Larger batches are faster, and other
    problems differ: the time is an estimate, more often too long than too short.

    Args:
        model: As in `evaluate`, as are the others.
        problems: The problems.
        out: The folder of the run.
        verifier: One that is open, and stays so.
        settings: How completions are sampled.
        model_settings: How the model is run.
        reward: What rewards a sample.

    Raises as `evaluate`, also where `out` belongs to another run.
    """
    chosen, _ = read_problems(problems)
    batch_size = model_settings.batch_size
    rows = min(batch_size or PROBE, PROBE)
    sampler = load_backend(str(model), dataclasses.replace(model_settings, batch_size=rows))
    sampler.check({problem.id: problem.prompt for problem in problems}, settings)
    described = _described(sampler, batch_size or recorded_batch_size(Path(out)))
    described = sampled_settings(described, settings, chosen, verifier, reward)
    check_folder(Path(out), described, grows=problems)
    rewarded = reward_or_tests(reward, chosen, verifier)
    probe = _probe(problems, settings.samples)
    started = time.perf_counter()
    drawn = [sample for some in sampler.sample(probe, settings) for sample in some]
    sampled = time.perf_counter()
    asked = [
        (submission(s, chosen[s.problem_id], verifier.program_of), chosen[s.problem_id])
        for s in drawn
    ]
    if rewarded is None:
        verifier.verify_many([problem_job(found.program, problem) for found, problem in asked])
    else:
        reward_batch([found for found, _ in asked], rewarded, chosen)
    verified = time.perf_counter()
    total = len(problems) * settings.samples
    found = _lines(Path(out) / SAMPLES)
    missing = max(total - found, 0)
    tokens = [sample.tokens for sample in drawn]
    known = None if None in tokens else sum(t for t in tokens if t is not None)
    sampling_s = (sampled - started) / len(drawn) * missing
    verifying_s = (verified - sampled) / len(drawn) * missing
    return EvaluationPlan(
        problems=len(problems),
        samples=total,
        found=found,
        most_tokens=missing * settings.max_new_tokens,
        expected_tokens=None if known is None else round(known / len(drawn) * missing),
        probed=len(drawn),
        sampling_s=round(sampling_s, 1),
        verifying_s=round(verifying_s, 1),
        seconds=round(max(sampling_s, verifying_s), 1),
    )


@dataclasses.dataclass(frozen=True)
class ScorePlan:
    """The size of a scoring: `found` of the `programs` have a score in the folder.

    `distinct` programs differ from every other one of their problem, as text; they have `tests`
    tests in all.
    """

    problems: int
    programs: int
    found: int
    distinct: int
    tests: int


def plan_score(
    samples_path: str | Path,
    problems: str | Path | Sequence[Problem],
    out: str | Path,
    *,
    verifier: Verifier,
    limit: int | None = None,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    reward: Any = BY_TESTS,
) -> ScorePlan:
    """Return the plan of `score` with these arguments; no program runs and nothing is written.

    Args:
        samples_path: As in `score`, as are the others.
        problems: The problems, or their file.
        out: The folder of the run.
        verifier: One that is open, and stays so.
        limit: Take only the first problems and their samples.
        log_format: Which tool wrote the file.
        mapping: Where a field is in a row.
        reward: What rewards a sample.

    Raises as `score`, also where `out` belongs to another run.
    """
    chosen, _ = read_problems(problems)
    chosen, submissions = read_submitted(
        samples_path,
        chosen,
        limit=limit,
        log_format=log_format,
        mapping=mapping,
        extract=verifier.program_of,
    )
    described = scored_settings(samples_path, chosen, verifier, reward)
    check_folder(Path(out), described, grows=list(chosen.values()), samples=Path(samples_path))
    distinct = {(found.sample.problem_id, found.program) for found in submissions}
    return ScorePlan(
        problems=len(chosen),
        programs=len(submissions),
        found=_lines(Path(out) / SCORES),
        distinct=len(distinct),
        tests=sum(len(chosen[problem_id].tests) for problem_id, _ in distinct),
    )


def _probe(problems: Sequence[Problem], samples: int) -> list[Request]:
    """Return requests for the first samples of a run."""
    left = PROBE
    requests = []
    for problem in problems:
        if left <= 0:
            break
        requests.append(Request(problem.id, problem.prompt, range(min(left, samples))))
        left -= len(requests[-1].indices)
    return requests


def _described(sampler: Backend, batch_size: int | None) -> dict[str, Any]:
    """Return the model as a run of this batch size would record it; the probe's is another one."""
    described = sampler.describe()
    if "batch_size" in described:
        described["batch_size"] = batch_size
    return described


def _lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
