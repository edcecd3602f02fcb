"""The best of n samples: of one problem as they are drawn, and what choosing gains in a run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk import errors
from maxatk.check import whole
from maxatk.evaluation.scoring import BY_TESTS, Scorer, scoring_thread, visible_shares
from maxatk.evaluation.submissions import Submission, answer_of, program_key, submission
from maxatk.records import Problem, Score
from maxatk.sampling import ModelSettings, Request, SamplingSettings, load_backend
from maxatk.verifier import Progress, Verifier, problem_job

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon
WAYS = ("likelihood", "visible-tests", "majority")  # of `solve`, without the tests that decide


@dataclasses.dataclass(frozen=True)
class Choice:
    """The sample that was chosen for a problem, and what every sample is worth.

    `rewards` are what it was chosen `by`, in the order of the samples: rewards, log-probabilities
    in nats, shares of visible tests or votes for an answer. `sample` is the first of the highest
    `reward`, with its `completion` and the `program` in it; None is what no sample has.
    """

    problem_id: str
    by: str
    rewards: tuple[float | None, ...]
    outcomes: Mapping[str, int]
    sample: int | None = None
    completion: str | None = None
    program: str | None = None
    reward: float | None = None
    passed: int = 0
    total: int = 0

    @property
    def solved(self) -> bool:
        """Whether the reward is 1 or more: with tests, whether the program passes every one."""
        return self.by == "reward" and self.reward is not None and self.reward >= 1

    def to_json(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        row = dataclasses.asdict(self)
        return {**row, "solved": self.solved, "samples": len(self.rewards)}


def solve(
    model: str | Path,
    problem: Problem,
    *,
    n: int = 64,
    by: str = "reward",
    settings: SamplingSettings | None = None,
    model_settings: ModelSettings | None = None,
    verifier: Verifier | None = None,
    reward: Any = BY_TESTS,
    progress: Progress | None = None,
) -> Choice:
    """Draw up to `n` samples for a problem and return the best.

    By the reward they are scored beside the sampling, and none is drawn after one of a reward of 1
    or more. By anything else all are drawn, and neither tests nor answer are looked at.

    Args:
        model: A local folder, a hub name, or the name a server knows.
        problem: What is to be solved.
        n: The most samples drawn, whatever `settings` say.
        by: "reward", "likelihood", "visible-tests" or "majority".
        settings: How they are drawn.
        model_settings: How the model is run; 8 samples at a time by default.
        verifier: One that is open, and stays so; one of its own by default.
        reward: What a recipe may say under that name.
        progress: Called with (done, n).

    Raises InvalidValueError (n, `by`, settings, a problem without what `by` needs), DataError (no
    sample has what `by` needs), MissingFileError, MissingDependencyError (backend) and ServerError.
    """
    whole("n", n, 1)
    if by == "reward" and reward == BY_TESTS:
        problem_job("", problem)
    if by not in ("reward", *WAYS):
        raise errors.unknown_name("select", by, WAYS)
    if by == "visible-tests" and not problem.visible_tests:
        raise errors.InvalidValueError(f"select: the problem {problem.id!r} has no visible_tests")
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)

    def report(found: Sequence[Any]) -> None:
        if progress is not None:
            progress(len(found), n)

    with contextlib.ExitStack() as opened:
        verifier = verifier or opened.enter_context(Verifier())
        scorer = Scorer(reward, {problem.id: problem}, verifier) if by == "reward" else None
        running = model_settings or ModelSettings(batch_size=DRAWN_AT_ONCE)
        backend = load_backend(str(model), running)
        backend.prepare({problem.id: problem.prompt}, settings)
        sampled = backend.sample([Request(problem.id, problem.prompt, range(n))], settings)
        drawn = opened.enter_context(contextlib.closing(sampled))
        extract = verifier.program_of
        batches = ([submission(s, problem, extract) for s in some] for some in drawn)
        if scorer is not None:
            return _best_scored(problem, batches, scorer, backend.batch_size, report)
        found: list[Submission] = []
        for batch in batches:
            found += batch
            report(found)
        values = _values(problem, by, found, verifier)
    if all(value is None for value in values):
        raise errors.DataError(f"select: no sample of {problem.id!r} has a score by {by!r}")
    return _first_best(problem, by, found, values)


def _best_scored(
    problem: Problem,
    batches: Iterable[Sequence[Submission]],
    scorer: Scorer,
    ahead: int,
    report: Callable[[Sequence[Any]], None],
) -> Choice:
    found: list[Submission] = []
    scores: list[Score] = []

    def score(batch: Sequence[Submission]) -> None:
        for some in scorer.score(batch):
            scores.extend(score for score, _ in some)
            report(scores)

    with scoring_thread(score, ahead=ahead) as put:
        for batch in batches:
            found += batch
            put(batch)
            if any((each.reward or 0) >= 1 for each in list(scores)):
                break
    return _first_best(problem, "reward", found, [each.reward for each in scores], scores)


def _first_best(
    problem: Problem,
    by: str,
    found: Sequence[Submission],
    values: Sequence[float | None],
    scores: Sequence[Score] = (),
) -> Choice:
    outcomes = Counter(str(score.outcome) for score in scores)
    choice = Choice(problem.id, by, tuple(values), dict(sorted(outcomes.items())))
    known = [(value, -place) for place, value in enumerate(values) if value is not None]
    if not known:
        return choice
    reward, place = max(known)
    best = found[-place]
    return dataclasses.replace(
        choice,
        sample=best.sample.sample,
        completion=best.sample.completion,
        program=best.program,
        reward=reward,
        passed=scores[-place].passed if scores else 0,
        total=scores[-place].total if scores else 0,
    )


def _values(
    problem: Problem, by: str, found: Sequence[Submission], verifier: Verifier
) -> Sequence[float | None]:
    if by == "likelihood":
        return [each.sample.logprob for each in found]
    if by == "visible-tests":
        shares = visible_shares(found, verifier, {problem.id: problem})
        return [shares.get((problem.id, each.sample.sample)) for each in found]
    if problem.tests or problem.visible_tests or problem.entry_point:
        votes = [program_key(each.program) for each in found]
    else:
        votes = [answer_of(each.sample.completion) for each in found]
    counts = Counter(votes)
    return [float(counts[vote]) for vote in votes]
