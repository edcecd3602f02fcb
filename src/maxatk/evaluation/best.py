"""The best of n samples: of one problem as they are drawn, and what choosing gains in a run.

At inference nobody knows the reward: the best of k is then the one with the highest likelihood,
most visible tests passed, or the answer that most samples give. `solve` takes it, by tests where
there are some, and `select` says what remains of max@k.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxatk.check import whole
from maxatk.errors import DataError, InvalidValueError, MissingFileError, suggestion, unknown_name
from maxatk.evaluation import scorio_rules
from maxatk.evaluation.folder import SAMPLES, SCORES
from maxatk.evaluation.store import read_records
from maxatk.evaluation.submissions import Submission, program_key, submission
from maxatk.evaluation.verify import BY_TESTS, Scored, Scorer, VerifyingThread, visible_shares
from maxatk.objectives import majority_at_k, max_at_k
from maxatk.records import Problem, Sample, Score
from maxatk.rewards import load_reward, read_spec
from maxatk.rewards.reward import columns_of
from maxatk.sampling import Backend, ModelSettings, Request, SamplingSettings, load_backend
from maxatk.statistics.intervals import FloatArray, Interval, check_ks, default_ks, mean_interval
from maxatk.verifier import AnyVerifier, Progress, Verifier, problem_job

DRAWN_AT_ONCE = 8  # samples under way at a time: few, so that an easy problem is done soon
TRUTH, RANDOM, MAJORITY = "truth", "random", "majority"
OF_SAMPLES = ("likelihood", "mean_likelihood", "tokens", "entropy", MAJORITY)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Values = list[float | None]
"""What chooses among samples, in their order; None where a sample has none."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The sample that was chosen for a problem, and what every sample is worth.

    `by` is "reward", or the way of choosing that knows neither tests nor answer. `rewards` are
    then the rewards, log-probabilities in nats, shares of visible tests, votes for a sample's
    answer or values of a function, in the order of the samples, None where there is none; `reward`
    is that of the chosen `sample`, the first of the highest, with its `completion` and the
    `program` in it. All four are None where no sample has one. Of its `total` tests `passed`
    passed, both 0 where no test was run; `outcomes` counts those of all samples.
    """

    problem_id: str
    by: str
    sample: int | None
    completion: str | None
    program: str | None
    reward: float | None
    rewards: tuple[float | None, ...]
    passed: int = 0
    total: int = 0
    outcomes: Mapping[str, int] = dataclasses.field(default_factory=dict)

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
    verifier: AnyVerifier | None = None,
    reward: Any = BY_TESTS,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Choice:
    """Draw up to `n` samples for a problem and return the best.

    By the reward they are scored beside the sampling, and once one has a reward of 1 or more, or
    passes every test, no more are drawn, unless `keep_going`; what is chosen does not depend on
    how fast the verifier was. By anything else all are drawn, and neither the tests nor the answer
    of the problem are looked at.

    Args:
        model: A local folder, a hub name, or the name a server knows.
        problem: What is to be solved.
        n: The most samples drawn.
        by: "reward", "likelihood", "visible-tests", "majority", or a function as `read_spec` takes
            one.
        settings: How they are drawn, without its `samples`, which `n` is.
        model_settings: How the model is run; 8 samples at a time where None.
        verifier: One that is open, and stays so; one of its own where None.
        reward: What a recipe may say under that name.
        keep_going: Draw all `n`, even after one was solved.
        progress: Called with (done, n).

    Raises InvalidValueError (n, `by`, settings, a problem without what `by` needs),
    MissingFileError (model), MissingDependencyError (backend), ServerError, and DataError where no
    sample has a value by anything but the reward.
    """
    whole("n", n, 1)
    if by == "reward" and reward == BY_TESTS:
        problem_job("", problem)
    _check_way(by, problem)
    settings = dataclasses.replace(settings or SamplingSettings(), samples=n)
    with contextlib.ExitStack() as opened:
        verifier = verifier or opened.enter_context(Verifier())
        scorer = Scorer(reward, {problem.id: problem}, verifier) if by == "reward" else None
        backend = load_backend(
            str(model), model_settings or ModelSettings(batch_size=DRAWN_AT_ONCE)
        )
        backend.prepare({problem.id: problem.prompt}, settings)
        drawn = _Drawn(problem, n, backend, settings, verifier, progress)
        if scorer is not None:
            total = len(problem.tests) if scorer.by_tests else 0
            return _best_scored(problem, drawn.scored(scorer, keep_going=keep_going), total=total)
        return _best_valued(problem, by, drawn.all(), verifier)


class _Drawn:
    """The samples of one problem, as they are drawn."""

    def __init__(
        self,
        problem: Problem,
        n: int,
        backend: Backend,
        settings: SamplingSettings,
        verifier: AnyVerifier,
        progress: Progress | None,
    ) -> None:
        self._problem, self._n, self._verifier = problem, n, verifier
        self._progress = progress or (lambda _done, _total: None)
        self._ahead = backend.batch_size
        self._batches = backend.sample([Request(problem.id, problem.prompt, range(n))], settings)

    def all(self) -> list[Submission]:
        """Return all of them."""
        found: list[Submission] = []
        for samples in self._batches:
            found += self._submissions(samples)
            self._progress(len(found), self._n)
        return found

    def scored(self, scorer: Scorer, *, keep_going: bool) -> list[Scored]:
        """Return them with their scores, up to the batch in which one was solved."""
        found: list[Scored] = []

        def score(batch: Sequence[Submission]) -> None:
            for some in scorer.score(batch):
                found.extend(some)
                self._progress(len(found), self._n)

        with (
            VerifyingThread(score, ahead=self._ahead) as thread,
            contextlib.closing(self._batches) as batches,
        ):
            for samples in batches:
                thread.put(self._submissions(samples))
                if not keep_going and any(_solves(scored.score) for scored in list(found)):
                    break
        return found

    def _submissions(self, samples: Sequence[Sample]) -> list[Submission]:
        return [submission(s, self._problem, self._verifier.program_of) for s in samples]


def _solves(score: Score) -> bool:
    return score.reward is not None and score.reward >= 1


def _best_scored(problem: Problem, found: Sequence[Scored], *, total: int) -> Choice:
    rewards = [scored.score.reward for scored in found]
    counts = Counter(str(scored.score.outcome) for scored in found)
    choice = _first_best(problem, "reward", [scored.submission for scored in found], rewards)
    passed = 0 if choice.reward is None else found[rewards.index(choice.reward)].score.passed
    outcomes = dict(sorted(counts.items()))
    return dataclasses.replace(choice, passed=passed, total=total, outcomes=outcomes)


def _best_valued(
    problem: Problem, by: str, found: Sequence[Submission], verifier: AnyVerifier
) -> Choice:
    way = WAYS.get(by) or _by_function(by)
    choice = _first_best(problem, by, found, way(problem, found, verifier))
    if choice.reward is None:
        raise DataError(f"select: no sample of {problem.id!r} has a score by {by!r}")
    return choice


def _first_best(
    problem: Problem, by: str, found: Sequence[Submission], values: Sequence[float | None]
) -> Choice:
    known = [(value, -place) for place, value in enumerate(values) if value is not None]
    if not known:
        return Choice(problem.id, by, None, None, None, None, tuple(values))
    value, place = max(known)
    best = found[-place]
    sample = best.sample
    return Choice(
        problem.id, by, sample.sample, sample.completion, best.program, value, tuple(values)
    )


def _check_way(by: str, problem: Problem) -> None:
    if by == "visible-tests" and not problem.visible_tests:
        raise InvalidValueError(f"select: the problem {problem.id!r} has no visible_tests")
    is_function = ":" in by and read_spec(by)[0].kind == "function"
    if by != "reward" and by not in WAYS and not is_function:
        raise InvalidValueError(
            f"select: got {by!r}; allowed: {', '.join(WAYS)}, module:function, file.py:function"
            f"{suggestion(by, WAYS)}"
        )


def _by_likelihood(_: Problem, found: Sequence[Submission], __: AnyVerifier) -> Values:
    return [each.sample.logprob for each in found]


def _by_visible_tests(
    problem: Problem, found: Sequence[Submission], verifier: AnyVerifier
) -> Values:
    shares = visible_shares(found, verifier, {problem.id: problem})
    return [shares.get((problem.id, each.sample.sample)) for each in found]


def _by_majority(problem: Problem, found: Sequence[Submission], _: AnyVerifier) -> Values:
    is_code = bool(problem.tests or problem.visible_tests or problem.entry_point)
    votes = [
        program_key(each.program) if is_code else answer_of(each.sample.completion)
        for each in found
    ]
    counts = Counter(votes)
    return [float(counts[vote]) for vote in votes]


def _by_function(by: str) -> Callable[[Problem, Sequence[Submission], AnyVerifier], Values]:
    def values(problem: Problem, found: Sequence[Submission], verifier: AnyVerifier) -> Values:
        reward = load_reward(by, verifier=verifier)
        problems = [dataclasses.replace(problem, tests=(), answer=None)] * len(found)
        completions = [each.sample.completion for each in found]
        return reward([problem.prompt] * len(found), completions, **columns_of(problems))

    return values


WAYS: Mapping[str, Callable[[Problem, Sequence[Submission], AnyVerifier], Values]] = {
    "likelihood": _by_likelihood,
    "visible-tests": _by_visible_tests,
    "majority": _by_majority,
}
"""How a sample is chosen without the tests that decide: name -> values of the samples."""


def answer_of(completion: str) -> str:
    """Return the answer a completion votes for: its last boxed text, else its last number.

    Without either it is the whole text, spaces at its ends left out.
    """
    for pattern in (_BOXED, _NUMBER):
        if found := pattern.findall(completion):
            return str(found[-1]).strip()
    return completion.strip()


@dataclasses.dataclass(frozen=True)
class Selection:
    """What each way of choosing gains at every k.

    `gains` maps a way to its means over problems with the 95% intervals of `mean_interval`, (K,)
    each: "truth" is max@k itself, "random" the mean reward. `problems` have enough samples with a
    reward and every score; `left_out` do not.
    """

    ks: tuple[int, ...]
    gains: Mapping[str, Interval]
    problems: int
    left_out: int


def select(folder: str | Path, by: Sequence[str], *, ks: Sequence[int] | None = None) -> Selection:
    """Return what choosing the best of k by each of `by` gains, for the samples of a run.

    `by` are columns of the scores, "likelihood" (the log-probability), "mean_likelihood" (that of
    a token), "tokens", "entropy", "majority", or "scorio:RULE:COLUMN", which is the mean over 200
    random subsets. Samples without a reward or a score are left out.

    Raises MissingFileError without scores, InvalidValueError for a column that no sample has and
    for a k above the samples, MissingDependencyError for a rule of scorio without it.
    """
    folder = Path(folder)
    if not (folder / SCORES).is_file():
        raise MissingFileError(
            f"{folder}: holds no {SCORES}; select needs a folder that eval or score has written"
        )
    scores = read_records(folder / SCORES, Score)
    samples = read_records(folder / SAMPLES, Sample) if (folder / SAMPLES).is_file() else {}
    table = [_row(score, samples.get(key)) for key, score in scores.items()]
    known = sorted({name for row in table for name in row.values})
    if any(row.vote is not None for row in table):
        known.append(MAJORITY)
    needed = [part for way in by for part in _parts(way)]
    for name in needed:
        if name not in known and name in OF_SAMPLES:
            raise InvalidValueError(
                f"by: {name!r} needs what {SAMPLES} of {folder} does not hold; allowed here: "
                f"{', '.join(known) or 'nothing'}"
            )
        if name not in known:
            raise unknown_name("by", name, known)
    columns = [name for name in needed if name != MAJORITY]
    groups: dict[str, list[_Row]] = {}
    for row in table:
        if _is_complete(row, columns, vote=MAJORITY in needed):
            groups.setdefault(row.problem_id, []).append(row)
    if not groups:
        raise InvalidValueError(f"{folder}: no sample has a reward and all of {', '.join(by)}")
    fewest = min(map(len, groups.values()))
    chosen_ks = default_ks(fewest) if ks is None else check_ks(ks, fewest)
    ways = {name: _way(name) for name in (TRUTH, *by, RANDOM)}
    gains = {
        name: mean_interval(np.stack([way(rows, chosen_ks) for rows in groups.values()]))
        for name, way in ways.items()
    }
    left_out = len({row.problem_id for row in table}) - len(groups)
    return Selection(tuple(chosen_ks), gains, len(groups), left_out)


@dataclasses.dataclass(frozen=True)
class _Row:
    problem_id: str
    reward: float | None
    values: Mapping[str, float]
    vote: str | None


def _row(score: Score, sample: Sample | None) -> _Row:
    values = dict(score.columns)
    vote = score.program
    if sample is not None:
        vote = answer_of(sample.completion) if vote is None else vote
        known = {"likelihood": sample.logprob, "tokens": sample.tokens, "entropy": sample.entropy}
        if sample.logprob is not None and sample.tokens:
            known["mean_likelihood"] = sample.logprob / sample.tokens
        values |= {name: float(value) for name, value in known.items() if value is not None}
    return _Row(score.problem_id, score.reward, values, vote)


def _parts(way: str) -> tuple[str, ...]:
    """Return what a way of choosing needs of a sample."""
    if way.startswith(scorio_rules.PREFIX):
        return MAJORITY, scorio_rules.column_of(way)
    return (way,)


def _is_complete(row: _Row, columns: Sequence[str], *, vote: bool) -> bool:
    has_columns = all(name in row.values for name in columns)
    return row.reward is not None and has_columns and (row.vote is not None or not vote)


def _way(name: str) -> Callable[[Sequence[_Row], Sequence[int]], FloatArray]:
    """Return what computes the gain of one way of choosing over the samples of a problem: (K,)."""

    def gain(rows: Sequence[_Row], ks: Sequence[int]) -> FloatArray:
        rewards = np.array([row.reward for row in rows], dtype=np.float64)
        if name == TRUTH:
            return max_at_k(rewards, list(ks))
        if name == RANDOM:
            return np.full(len(ks), rewards.mean())
        votes = [str(row.vote) for row in rows]
        if name == MAJORITY:
            return majority_at_k(rewards, votes, list(ks))
        scores = np.array([row.values[_parts(name)[-1]] for row in rows])
        if name.startswith(scorio_rules.PREFIX):
            return scorio_rules.gain(name, rewards, votes, scores, ks)
        return max_at_k(rewards, list(ks), selection=scores)

    return gain
