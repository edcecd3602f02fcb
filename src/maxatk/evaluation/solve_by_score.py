"""Solve one problem without its tests: draw samples, and choose one by what is known beforehand."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.errors import DataError, InvalidValueError, suggestion
from maxatk.evaluation.backends import ModelSettings, load_backend
from maxatk.evaluation.sampling import Request, SamplingSettings
from maxatk.evaluation.score_selection import answer_of
from maxatk.evaluation.submissions import program_key, submission
from maxatk.evaluation.verifying import verifier_or_default, visible_shares
from maxatk.records import Problem, Sample
from maxatk.rewards import load_reward, read_spec
from maxatk.rewards.reward import columns_of
from maxatk.verifier import Verifier

Scorer = Callable[[Problem, Sequence[Sample], Verifier], list[float | None]]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The sample that was chosen for a problem, and what every sample scored.

    `by` is the way of choosing; `text` is the chosen completion, and `program` the program in it.
    `scores` are in the order of the samples: log-probabilities in nats, shares of visible tests,
    votes for the sample's answer, or the values of a function; None where there is none.
    """

    problem_id: str
    by: str
    sample: int
    text: str
    program: str
    score: float
    scores: tuple[float | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        return dataclasses.asdict(self)


def choose(
    model: str | Path,
    problem: Problem,
    by: str,
    *,
    n: int = 64,
    settings: SamplingSettings | None = None,
    model_settings: ModelSettings | None = None,
    verifier: Verifier | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Draw `n` samples for a problem and return the one that `by` puts first.

    The tests and the answer of the problem are not looked at.

    Args:
        model: A local folder, a hub name, or the name a server knows.
        problem: The problem.
        by: "likelihood", "visible-tests", "majority" or a function as `read_spec` takes one.
        n: How many samples are drawn.
        settings: How they are drawn; its `samples` is not used.
        model_settings: Where and how the model runs.
        verifier: Runs the visible tests; one of its own if not given.
        progress: Called as progress(drawn, n).

    Raises InvalidValueError (n, `by`, a problem without visible tests), MissingFileError (model),
    DataError where no sample has a score, and as `solve`.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidValueError(f"n: must be an integer of 1 or more, got {n!r}")
    if by == "visible-tests" and not problem.visible_tests:
        raise InvalidValueError(f"select: the problem {problem.id!r} has no visible_tests")
    if by not in WAYS and (":" not in by or read_spec(by)[0].kind != "function"):
        allowed = ", ".join(WAYS)
        raise InvalidValueError(
            f"select: got {by!r}; allowed: {allowed}, module:function, file.py:function"
            f"{suggestion(by, WAYS)}"
        )
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)
    sampler = load_backend(str(model), model_settings or ModelSettings())
    sampler.check({problem.id: problem.prompt}, settings)
    with verifier_or_default(verifier) as opened:
        scorer = WAYS[by] if by in WAYS else _by_function(by, opened)
        drawn: list[Sample] = []
        for some in sampler.sample([Request(problem.id, problem.prompt, range(n))], settings):
            drawn += some
            if progress is not None:
                progress(len(drawn), n)
        scores = scorer(problem, drawn, opened)
        program_of = opened.program_of
    known = [(score, -i) for i, score in enumerate(scores) if score is not None]
    if not known:
        raise DataError(f"select: no sample of {problem.id!r} has a score by {by!r}")
    score, place = max(known)
    best = drawn[-place]
    program = submission(best, problem, program_of).program
    return Choice(
        problem.id,
        by,
        best.sample,
        best.completion,
        program,
        score,
        tuple(scores),
    )


def _by_likelihood(_: Problem, samples: Sequence[Sample], __: Verifier) -> list[float | None]:
    return [sample.logprob for sample in samples]


def _by_visible_tests(
    problem: Problem, samples: Sequence[Sample], verifier: Verifier
) -> list[float | None]:
    found = visible_shares(
        [submission(s, problem, verifier.program_of) for s in samples],
        verifier,
        {problem.id: problem},
    )
    return [found.get((s.problem_id, s.sample)) for s in samples]


def _by_majority(
    problem: Problem, samples: Sequence[Sample], verifier: Verifier
) -> list[float | None]:
    is_code = bool(problem.tests or problem.visible_tests or problem.entry_point)
    votes = [
        program_key(submission(s, problem, verifier.program_of).program)
        if is_code
        else answer_of(s.completion)
        for s in samples
    ]
    counts = Counter(votes)
    return [float(counts[vote]) for vote in votes]


def _by_function(by: str, verifier: Verifier) -> Scorer:
    reward = load_reward(by, verifier=verifier)

    def score(problem: Problem, samples: Sequence[Sample], _: Verifier) -> list[float | None]:
        problems = [dataclasses.replace(problem, tests=(), answer=None)] * len(samples)
        prompts = [problem.prompt] * len(samples)
        return reward(prompts, [s.completion for s in samples], **columns_of(problems))

    return score


WAYS: Mapping[str, Scorer] = {
    "likelihood": _by_likelihood,
    "visible-tests": _by_visible_tests,
    "majority": _by_majority,
}
"""How a sample is chosen without the tests that decide: name -> scores of the samples."""
