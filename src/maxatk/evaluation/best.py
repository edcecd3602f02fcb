"""The best of n samples: of one problem as they are drawn, and what choosing gains in a run."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from maxatk import errors
from maxatk.check import needing, whole
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.store import read_records
from maxatk.evaluation.submissions import Submission, program_key, submission
from maxatk.evaluation.verify import BY_TESTS, Scorer, scoring_thread, visible_shares
from maxatk.objectives import majority_at_k, max_at_k
from maxatk.records import Problem, Sample, Score
from maxatk.sampling import ModelSettings, Request, SamplingSettings, load_backend
from maxatk.statistics.intervals import FloatArray, Interval, check_ks, default_ks, mean_interval
from maxatk.verifier import Progress, Verifier, problem_job

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon
WAYS = ("likelihood", "visible-tests", "majority")  # of `solve`, without the tests that decide
SCORIO_RULES = (
    *("best_of_n", "majority_of_the_bests", "best_of_majority", "weighted_majority_vote"),
    *("softmax_weighted_vote", "rank_weighted_vote", "logit_weighted_vote", "filtered_vote"),
    "cges_vote",
)
_SCORIO = "scorio:"
_SUBSETS = 200  # of each size, from every problem: a rule of scorio has no sum over all of them

_TRUTH, _RANDOM, _MAJORITY = "truth", "random", "majority"
_OF_SAMPLES = ("likelihood", "mean_likelihood", "tokens", "entropy", _MAJORITY)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_Row: TypeAlias = tuple[float, Mapping[str, Any]]
"""The reward of a sample, and what it can be chosen by."""


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


def answer_of(completion: str) -> str:
    """Return the answer of a completion: its last boxed text, else its last number, else all."""
    for pattern in (_BOXED, _NUMBER):
        if found := pattern.findall(completion):
            return str(found[-1]).strip()
    return completion.strip()


@dataclasses.dataclass(frozen=True)
class Selection:
    """What each way of choosing gains at every k, as means over problems: (K,) each.

    "truth" is max@k itself, "random" the mean reward. `left_out` problems lack some score.
    """

    ks: tuple[int, ...]
    gains: Mapping[str, Interval]
    problems: int
    left_out: int


def select(folder: str | Path, by: Sequence[str], *, ks: Sequence[int] | None = None) -> Selection:
    """Return what choosing the best of k by each of `by` gains, for the samples of a run.

    `by` are columns of the scores, "likelihood" (the log-probability), "mean_likelihood" (that of
    a token), "tokens", "entropy", "majority", or "scorio:RULE:COLUMN", the mean over 200 random
    subsets. Samples without a reward or a score are left out. `ks` are 1, 2, 4, ... by default.

    Raises MissingFileError without scores, InvalidValueError for a column that no sample has,
    scores that a rule does not take and a k above the samples, MissingDependencyError for scorio.
    """
    folder = Path(folder)
    if not (folder / SCORES).is_file():
        raise errors.MissingFileError(
            f"{folder}: holds no {SCORES}; select needs a folder that eval or score has written"
        )
    scores = read_records(folder / SCORES, Score)
    samples = read_records(folder / SAMPLES, Sample) if (folder / SAMPLES).is_file() else {}
    rows = [(score, _known(score, samples.get(key))) for key, score in scores.items()]
    known = {name for _, values in rows for name in values}
    needed = [part for way in by for part in _parts(way)]
    for name in needed:
        if name not in known and name in _OF_SAMPLES:
            raise errors.InvalidValueError(
                f"by: {name!r} needs what {SAMPLES} of {folder} does not hold; allowed here: "
                f"{', '.join(sorted(known)) or 'nothing'}"
            )
        if name not in known:
            raise errors.unknown_name("by", name, known)
    groups: dict[str, list[_Row]] = defaultdict(list)
    for score, values in rows:
        if score.reward is not None and all(name in values for name in needed):
            groups[score.problem_id].append((score.reward, values))
    if not groups:
        raise errors.InvalidValueError(
            f"{folder}: no sample has a reward and all of {', '.join(by)}"
        )
    fewest = min(map(len, groups.values()))
    ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    gains = {
        name: mean_interval(np.stack([_gain(name, found, ks) for found in groups.values()]))
        for name in (_TRUTH, *by, _RANDOM)
    }
    left_out = len({score.problem_id for score, _ in rows}) - len(groups)
    return Selection(tuple(ks), gains, len(groups), left_out)


def _known(score: Score, sample: Sample | None) -> dict[str, Any]:
    """Return what a sample can be chosen by: numbers, and what it votes for as "majority"."""
    known = {**score.columns, _MAJORITY: score.program}
    if sample is not None:
        known |= {"likelihood": sample.logprob, "tokens": sample.tokens, "entropy": sample.entropy}
        known[_MAJORITY] = score.program or answer_of(sample.completion)
        if sample.logprob is not None and sample.tokens:
            known["mean_likelihood"] = sample.logprob / sample.tokens
    return {name: value for name, value in known.items() if value is not None}


def _parts(way: str) -> tuple[str, ...]:
    """Return what a way of choosing needs of a sample; raises as `select`."""
    if not way.startswith(_SCORIO):
        return (way,)
    rule, _, column = way.removeprefix(_SCORIO).partition(":")
    if rule not in SCORIO_RULES:
        raise errors.unknown_name("by", way, [f"{_SCORIO}{known}" for known in SCORIO_RULES])
    if not column:
        raise errors.InvalidValueError(f"by: {way!r} names no scores; allowed: {way}:COLUMN")
    with needing(f"by: {way!r} needs the package 'scorio': pip install 'maxatk[scorio]'"):
        importlib.import_module("scorio.aggregate")
    return _MAJORITY, column


def _gain(name: str, rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
    """Return the gain of one way of choosing over the samples of a problem: (K,)."""
    rewards = np.array([reward for reward, _ in rows], dtype=np.float64)
    if name == _TRUTH:
        return max_at_k(rewards, list(ks))
    if name == _RANDOM:
        return np.full(len(ks), rewards.mean())
    if name == _MAJORITY:
        return majority_at_k(rewards, [values[_MAJORITY] for _, values in rows], list(ks))
    scores = np.array([values[_parts(name)[-1]] for _, values in rows], dtype=np.float64)
    if name.startswith(_SCORIO):
        votes = [values[_MAJORITY] for _, values in rows]
        return _scorio_gain(name, rewards, votes, scores, ks)
    return max_at_k(rewards, list(ks), selection=scores)


def _scorio_gain(
    way: str, rewards: FloatArray, votes: Sequence[str], scores: FloatArray, ks: Sequence[int]
) -> FloatArray:
    """Return the mean reward that a rule chooses of k samples, over the same random subsets."""
    rule = way.removeprefix(_SCORIO).partition(":")[0]
    choose = getattr(importlib.import_module("scorio.aggregate"), rule)
    codes = np.unique(votes, return_inverse=True)[1]  # an empty answer would have no vote
    samples = np.tile(np.arange(len(rewards)), (_SUBSETS, 1))
    orders = np.random.default_rng(0).permuted(samples, axis=1)
    try:
        chosen = [
            choose(codes[some], scores[some], return_index=True)[1][:, None]
            for some in (orders[:, :k] for k in ks)
        ]
    except ValueError as error:
        raise errors.InvalidValueError(f"by: {way!r}: {error}") from error
    return np.array([rewards[np.take_along_axis(orders, at, axis=1)].mean() for at in chosen])
