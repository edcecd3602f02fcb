"""The best of n samples of one problem, chosen as they are drawn."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk import errors
from maxatk.check import function_or_none, require, whole
from maxatk.evaluation.scoring import BY_TESTS, Scorer, visible_shares
from maxatk.evaluation.scoring_thread import scoring_thread
from maxatk.evaluation.store import key_of
from maxatk.evaluation.submissions import Submission, answer_of, program_key, submission
from maxatk.objectives.metrics import passes
from maxatk.records import Problem, Score
from maxatk.sampling import ModelSettings, Request, SamplingSettings, load_backend
from maxatk.verifier import Progress, Verifier, problem_job

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon
SOLVED = 1.0  # the reward from which on no better sample is looked for
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
        return self.by == "reward" and self.reward is not None and bool(passes(self.reward, SOLVED))

    def to_json(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        row = dataclasses.asdict(self)
        return {**row, "solved": self.solved, "samples": len(self.rewards)}


def solve(
    model: str | Path,
    problem: Problem | str,
    *,
    n: int = 64,
    by: str | None = None,
    settings: SamplingSettings | None = None,
    model_settings: ModelSettings | None = None,
    verifier: Verifier | None = None,
    reward: Any = BY_TESTS,
    progress: Progress | None = None,
) -> Choice:
    """Draw up to `n` samples for a problem and return the best.

    By the reward they are scored beside the sampling, and none is drawn after one of a reward of 1
    or more. By anything else all are drawn, and neither tests nor answer are looked at. A sample
    without an answer, as one whose reasoning never ends, has no vote in a majority.

    Args:
        model: A local folder, a hub name, or the name a server knows.
        problem: What is to be solved: a text is a prompt without tests or an answer.
        n: The most samples drawn, whatever `settings` say.
        by: "reward", "likelihood", "visible-tests" or "majority"; the reward if not given, and the
            majority for a text.
        settings: How they are drawn.
        model_settings: How the model is run; 8 samples at a time by default.
        verifier: One that is open, and stays so; one of its own by default.
        reward: What a recipe may say under that name.
        progress: Called with (done, n).

    Raises InvalidValueError (n, `by`, settings, a problem without what `by` needs), DataError (no
    sample has what `by` needs), MissingFileError, MissingDependencyError (backend) and ServerError.
    """
    whole("n", n, 1)
    settings = SamplingSettings() if settings is None else settings
    _refuse_other_kinds(model, problem, settings, verifier)
    function_or_none("progress", progress)
    if by is None:
        by = "majority" if isinstance(problem, str) else "reward"
    if isinstance(problem, str):
        problem = Problem("prompt", problem)
    _refuse_way(problem, by, reward)
    settings = dataclasses.replace(settings, samples=n)

    def report(done: int) -> None:
        if progress is not None:
            progress(done, n)

    with contextlib.ExitStack() as opened:
        verifier = verifier or opened.enter_context(Verifier())
        # Before the model, which takes longer to load: a wrong reward is refused first.
        scorer = Scorer(reward, {problem.id: problem}, verifier) if by == "reward" else None
        if model_settings is None:
            model_settings = ModelSettings(batch_size=DRAWN_AT_ONCE)
        backend = load_backend(str(model), model_settings)
        backend.prepare({problem.id: problem.prompt}, settings)
        sampling = backend.sample([Request(problem.id, problem.prompt, range(n))], settings)
        drawn = opened.enter_context(contextlib.closing(sampling))
        extract = verifier.program_of
        batches = ([submission(sample, problem, extract) for sample in batch] for batch in drawn)
        if scorer is not None:
            return _best_by_reward(problem, batches, scorer, backend.batch_size, report)
        submissions: list[Submission] = []
        for batch in batches:
            submissions += batch
            report(len(submissions))
            # A backend knows it of all samples or of none: the rest would be drawn for nothing.
            if by == "likelihood" and all(s.sample.logprob is None for s in submissions):
                break
        values = _values(problem, by, submissions, verifier)
    if all(value is None for value in values):
        raise errors.DataError(f"select: no sample of {problem.id!r} has a score by {by!r}")
    return _first_best(problem, by, submissions, values)


def _refuse_other_kinds(model: object, problem: object, settings: object, verifier: object) -> None:
    """Raise InvalidValueError for an argument of `solve` that is of another kind."""
    require(isinstance(model, (str, Path)), "model", "a folder or a name", model)
    require(isinstance(problem, (Problem, str)), "problem", "a Problem or a text", problem)
    require(isinstance(settings, SamplingSettings), "settings", "SamplingSettings", settings)
    is_verifier = verifier is None or isinstance(verifier, Verifier)
    require(is_verifier, "verifier", "a Verifier that is open", verifier)


def _refuse_way(problem: Problem, by: str, reward: Any) -> None:
    """Raise InvalidValueError for an unknown way, and a problem without what it needs."""
    if by == "reward" and reward == BY_TESTS:
        problem_job("", problem)  # raises where the problem has no tests
    if by not in ("reward", *WAYS):
        raise errors.unknown_name("select", by, WAYS)
    if by == "visible-tests" and not problem.visible_tests:
        raise errors.InvalidValueError(f"select: the problem {problem.id!r} has no visible_tests")


def _best_by_reward(
    problem: Problem,
    batches: Iterable[Sequence[Submission]],
    scorer: Scorer,
    ahead: int,
    report: Callable[[int], None],
) -> Choice:
    """Return the best by the reward; no batch is drawn after one of a reward of 1 or more."""
    submissions: list[Submission] = []
    scores: list[Score] = []
    solved = threading.Event()  # set by the thread that scores, beside the sampling

    def score(batch: Sequence[Submission]) -> None:
        for scored in scorer.score(batch):
            for sample_score, _ in scored:
                scores.append(sample_score)
                if sample_score.reward is not None and passes(sample_score.reward, SOLVED):
                    solved.set()
            report(len(scores))

    with scoring_thread(score, ahead=ahead) as put:
        for batch in batches:
            submissions += batch
            put(batch)
            if solved.is_set():
                break
    # The thread has ended: what was queued is scored, so that there is a score for each.
    rewards = [score.reward for score in scores]
    return _first_best(problem, "reward", submissions, rewards, scores)


def _first_best(
    problem: Problem,
    by: str,
    submissions: Sequence[Submission],
    values: Sequence[float | None],
    scores: Sequence[Score] = (),
) -> Choice:
    """Return the first submission of the highest of its `values`; `scores` are those by tests."""
    outcomes = Counter(str(score.outcome) for score in scores)
    choice = Choice(problem.id, by, tuple(values), dict(sorted(outcomes.items())))
    best: int | None = None
    highest: float | None = None
    for place, value in enumerate(values):
        if value is not None and (highest is None or value > highest):
            best = place
            highest = value
    if best is None:
        return choice
    return dataclasses.replace(
        choice,
        sample=submissions[best].sample.sample,
        completion=submissions[best].sample.completion,
        program=submissions[best].program,
        reward=highest,
        passed=scores[best].passed if scores else 0,
        total=scores[best].total if scores else 0,
    )


def _values(
    problem: Problem, by: str, submissions: Sequence[Submission], verifier: Verifier
) -> Sequence[float | None]:
    """Return what each submission is worth by a way of `WAYS`; None where that is not known."""
    if by == "likelihood":
        return [submission.sample.logprob for submission in submissions]
    if by == "visible-tests":
        shares = visible_shares(submissions, verifier, {problem.id: problem})
        return [shares.get(key_of(submission.sample)) for submission in submissions]
    votes = [_vote(problem, submission) for submission in submissions]
    counts = Counter(votes)
    return [None if vote is None else float(counts[vote]) for vote in votes]


def _vote(problem: Problem, submission: Submission) -> str | None:
    """Return the answer that a submission votes for; None where it has none."""
    refused = submission.refused
    asks_for_program = problem.tests or problem.visible_tests or problem.entry_point
    if refused is not None and (asks_for_program or refused.kind == "unfinished_thought"):
        return None
    text = submission.program if asks_for_program else submission.sample.completion
    if not text.strip():
        return None
    return program_key(text, problem.language) if asks_for_program else answer_of(text)
