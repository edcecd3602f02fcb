"""A run: samples of problems, their scores and their results, in a folder that can be resumed.

`evaluate` draws the samples, `score` reads them from a file; everything behind is one flow. A
folder that was killed at any moment goes on with the same call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from maxatk.environment import environment
from maxatk.errors import DataError
from maxatk.evaluation.failures import FailureStore
from maxatk.evaluation.folder import (
    FAILURES,
    PROMPTS,
    RESULTS,
    SAMPLES,
    SCORES,
    check_folder,
    count_lines,
    recorded_batch_size,
    write_manifest,
)
from maxatk.evaluation.recipe import EvalRecipe, RunRecipe, ScoreRecipe
from maxatk.evaluation.results import Results, check_by
from maxatk.evaluation.store import Key, Store
from maxatk.evaluation.submissions import Submission, read_submissions, submission
from maxatk.evaluation.tally import build_results
from maxatk.evaluation.verify import BATCH, Scorer, VerifyingThread
from maxatk.folders import TRAIN_RECORD, file_digest, read_training, write_json
from maxatk.jsonl import write_jsonl
from maxatk.models import prompt_difference
from maxatk.problems.load import read_problems
from maxatk.records import Problem, Sample, Score
from maxatk.sampling import Backend, Request, load_backend
from maxatk.settings import masked
from maxatk.statistics.intervals import check_ks
from maxatk.verifier import AnyVerifier

UnitProgress = Callable[[int, int, str], object]
"""Called as progress(done, total, unit), from the sampling and from the verification thread."""

RecipeT = TypeVar("RecipeT", bound=EvalRecipe)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run would do: `found` of its samples, or of their scores, are in the folder.

    `distinct` programs differ from every other one of their problem, as text, and have `tests`
    tests in all; they are None where the samples are drawn. `most_tokens` is the bound of the new
    tokens of the samples that are missing, None where they are in a file.
    """

    problems: int
    samples: int
    found: int
    most_tokens: int | None = None
    distinct: int | None = None
    tests: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is known of the plan as a JSON object."""
        return {name: n for name, n in dataclasses.asdict(self).items() if n is not None}


class Source(Protocol):
    """Where the samples of a run come from: `total` of them.

    `settings` decides the samples, `remarks` is what else the manifest says of them. `file` holds
    them and `samples` are they, where they are in a file.
    """

    problems: Mapping[str, Problem]
    settings: Mapping[str, Any]
    remarks: Mapping[str, Any]
    total: int
    file: Path | None = None
    samples: Mapping[Key, Sample] = {}

    def draw(self, run: Run) -> Iterator[Sequence[Submission]]:
        """Yield the submissions that the run may lack, in order."""

    def plan(self, out: Path) -> Plan:
        """Return what is left to do in a folder."""


SourceKind = Callable[[Any, Mapping[str, Problem], AnyVerifier], Source]
"""What makes the source of a run: called with its recipe, its problems and its verifier."""


class Run:
    """The folder of a run: what it holds, what it lacks, and what is added to it.

    Open it in a with statement before adding to it: its files are then this process's alone, and
    samples are scored in a thread. Raises InvalidValueError for a folder that holds a run of other
    settings, and for a problem that lacks what the reward needs.
    """

    def __init__(
        self,
        recipe: RunRecipe,
        source: Source,
        verifier: AnyVerifier,
        progress: UnitProgress | None = None,
    ) -> None:
        self.recipe, self.source, self.verifier = recipe, source, verifier
        self.out, self.problems, self.samples = Path(recipe.out), source.problems, source.samples
        self._scorer = Scorer(recipe.reward, self.problems, verifier)
        self.settings = {**source.settings, **self._scorer.settings}
        grows = list(self.problems.values())
        check_folder(self.out, self.settings, grows=grows, samples=source.file)
        self._progress = progress
        self._started = time.monotonic()

    def carry_out(self) -> Results:
        """Add what the source gives and return the results."""
        with self:
            for found in self.source.draw(self):
                self.add(found)
        return self.finish()

    def __enter__(self) -> Run:
        with contextlib.ExitStack() as opened:
            write_manifest(self.out, self.settings)
            if self.source.file is None:
                self._samples = opened.enter_context(Store(self.out / SAMPLES, Sample))
                self.samples = self._samples.records
                self._refuse_strangers(self._samples)
            self._scores = opened.enter_context(Store(self.out / SCORES, Score))
            self._refuse_strangers(self._scores)
            self._failures = FailureStore(self.out / FAILURES, self.recipe.store_failures)
            opened.enter_context(self._failures)
            self._found = len(self.samples)
            for unit in ("samples", "scores") if self.source.file is None else ("scores",):
                self._report(unit)
            self._thread = opened.enter_context(VerifyingThread(self._score))
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def _refuse_strangers(self, store: Store[Any]) -> None:
        for problem_id, sample in store.records:
            if problem_id not in self.problems:
                raise DataError(
                    f"{store.path}: sample {sample} of an unknown problem {problem_id!r}"
                )

    def missing(self, samples: int) -> list[Request]:
        """Return a request for every problem that lacks some of so many samples, for those."""
        wanted = (
            Request(p.id, p.prompt, [i for i in range(samples) if (p.id, i) not in self.samples])
            for p in self.problems.values()
        )
        return [request for request in wanted if request.indices]

    def unscored(self) -> list[Sample]:
        """Return the samples that are there and have no score."""
        scored = self._scores.records
        return [sample for key, sample in self.samples.items() if key not in scored]

    def keep(self, samples: Sequence[Sample]) -> None:
        """Store samples that were drawn.

        In the order of the problems, and before they are scored: so the files of an interrupted
        run are prefixes of those of an uninterrupted one.
        """
        self._samples.append(samples)
        self._report("samples")

    def add(self, submissions: Sequence[Submission]) -> None:
        """Have those of the submissions scored that have no score; waits where many are queued."""
        scored = self._scores.records
        self._thread.put(
            [s for s in submissions if (s.sample.problem_id, s.sample.sample) not in scored]
        )

    def _score(self, batch: Sequence[Submission]) -> None:
        for scored in self._scorer.score(batch):
            # The failures first, so that a kill between the two loses none.
            self._failures.add(found.failure for found in scored)
            self._scores.append(found.score for found in scored)
            self._report("scores")

    def _report(self, unit: str) -> None:
        if self._progress is not None:
            done = len(self.samples if unit == "samples" else self._scores.records)
            self._progress(done, self.source.total, unit)

    def finish(self) -> Results:
        """Compute the results, write them and the prompts, and return them."""
        chosen, recipe = self.problems.values(), self.recipe
        named = isinstance(recipe.problems, (str, Path))
        manifest = {
            "settings": masked(self.settings),
            "environment": environment(),
            **self.verifier.described(),
            "problems_file": str(recipe.problems) if named else None,
            "seconds": round(time.monotonic() - self._started, 3),
            **({"samples_found": self._found} if self.source.file is None else {}),
            **self.source.remarks,
            **({} if recipe.label is None else {"label": recipe.label}),
        }
        results = build_results(
            list(self.problems),
            self.samples.values(),
            self._scores.records.values(),
            manifest=manifest,
            more_ks=recipe.k,
            threshold=recipe.threshold,
            meta=[problem.meta for problem in chosen],
        )
        if results.counts.unscored == results.counts.samples:
            raise DataError(f"{self.out}: nothing can be shown: {results.counts.lacking}")
        prompts = ({"problem_id": problem.id, "prompt": problem.prompt} for problem in chosen)
        write_jsonl(self.out / PROMPTS, prompts)
        write_json(self.out / RESULTS, results.to_json())
        return results


class Drawn(Source):
    """Samples that a backend draws; raises as `load_backend` and its `prepare`."""

    def __init__(
        self,
        recipe: EvalRecipe,
        problems: Mapping[str, Problem],
        verifier: AnyVerifier,
        backend: Backend | None = None,
    ) -> None:
        self.problems = problems
        self.sampling, self._verifier = recipe.sampling, verifier
        check_ks(recipe.k, self.sampling.samples)
        self._backend = backend or load_backend(recipe.model, resumed(recipe))
        prompts = {problem.id: problem.prompt for problem in problems.values()}
        self._backend.prepare(prompts, self.sampling)
        described = self._backend.describe()
        self.settings = {"model": described, "sampling": self.sampling.to_json()}
        self.remarks = _training_of(recipe)
        self.total = len(problems) * self.sampling.samples

    def draw(self, run: Run) -> Iterator[Sequence[Submission]]:
        """Yield the samples that are there, then those that are drawn, each as soon as stored."""
        yield self._submissions(run.unscored())
        missing = run.missing(self.sampling.samples)
        for drawn in self._backend.sample(missing, self.sampling) if missing else ():
            run.keep(drawn)
            yield self._submissions(drawn)

    def plan(self, out: Path) -> Plan:
        """Return how many samples and tokens are left to draw."""
        found = count_lines(out / SAMPLES)
        tokens = max(self.total - found, 0) * self.sampling.max_new_tokens
        return Plan(len(self.problems), self.total, found, most_tokens=tokens)

    def _submissions(self, samples: Iterable[Sample]) -> list[Submission]:
        extract = self._verifier.program_of
        return [submission(s, self.problems[s.problem_id], extract) for s in samples]


class Filed(Source):
    """Samples of a file; raises as `read_submissions`, and DataError for a problem without any."""

    def __init__(
        self, recipe: ScoreRecipe, problems: Mapping[str, Problem], verifier: AnyVerifier
    ) -> None:
        self.file = Path(recipe.samples)
        found = read_submissions(
            self.file,
            problems,
            log_format=recipe.format,
            mapping=recipe.map,
            extract=verifier.program_of,
        )
        self.problems = dict(itertools.islice(problems.items(), recipe.limit))
        self._submissions = [f for f in found if f.sample.problem_id in self.problems]
        counts = Counter(f.sample.problem_id for f in self._submissions)
        missing = [problem_id for problem_id in self.problems if problem_id not in counts]
        if missing:
            raise DataError(
                f"{self.file}: no sample for {len(missing)} of {len(self.problems)} problems, the "
                f"first {missing[0]!r}; score the problems that were sampled, or sample the rest"
            )
        check_ks(recipe.k, min(counts.values()))
        digest = {"sha256": file_digest(self.file), "bytes": self.file.stat().st_size}
        self.settings = {"samples": digest}
        self.remarks = {"samples_file": str(self.file)}
        self.total = len(self._submissions)
        self.samples = {(s.sample.problem_id, s.sample.sample): s.sample for s in self._submissions}

    def draw(self, run: Run) -> Iterator[Sequence[Submission]]:  # noqa: ARG002
        """Yield all of them, a batch at a time."""
        for start in range(0, self.total, BATCH):
            yield self._submissions[start : start + BATCH]

    def plan(self, out: Path) -> Plan:
        """Return how many programs and tests there are, equal programs counted once."""
        distinct = {(found.sample.problem_id, found.program) for found in self._submissions}
        return Plan(
            len(self.problems),
            self.total,
            count_lines(out / SCORES),
            distinct=len(distinct),
            tests=sum(len(self.problems[problem_id].tests) for problem_id, _ in distinct),
        )


def evaluate(
    recipe: EvalRecipe,
    *,
    backend: Backend | None = None,
    verifier: AnyVerifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Sample a model on every problem, score the samples beside it, and return the results.

    The folder gets samples.jsonl, scores.jsonl, failures.jsonl, prompts.jsonl, manifest.json and
    results.json, which holds what is returned. The same call continues a run that was killed, with
    the same samples as an uninterrupted one; a call with other settings is refused, except that a
    run may grow: by more samples, and by problems that follow those it has.

    Args:
        recipe: What is evaluated, how and where. Without a batch size the folder's is taken, else
            one that fits the memory.
        backend: One of the recipe's model that is loaded already, and stays so.
        verifier: One that is open, and stays so; one as the recipe says where None.
        progress: Called with (done, total, "samples" or "scores"), from two threads.

    Raises MissingFileError (problems, model), DataError (problems, the folder's files) and
    InvalidValueError (settings; a difference to the folder's manifest), all before any sampling;
    ServerError when a server fails for good: the same call resumes where it stopped.
    """
    kind = functools.partial(Drawn, backend=backend)
    with _prepared(recipe, kind, verifier, progress) as run:
        return run.carry_out()


def score(
    recipe: ScoreRecipe,
    *,
    verifier: AnyVerifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Score the samples of a file and return the results.

    The folder gets what that of `evaluate` does but the samples. The same call continues one that
    was killed, and one whose samples or problems have grown at their end scores what is new.

    Raises MissingFileError, DataError (an unreadable line, a sample of an unknown problem, a
    problem without samples) or InvalidValueError (k, settings), all before any verification.
    """
    with _prepared(recipe, Filed, verifier, progress) as run:
        return run.carry_out()


def plan(recipe: EvalRecipe | ScoreRecipe) -> Plan:
    """Return what `evaluate` or `score` would do; no program runs and nothing is written.

    Raises as they do, also where the folder belongs to another run.
    """
    kind = Drawn if isinstance(recipe, EvalRecipe) else Filed
    with _prepared(recipe, kind) as run:
        return run.source.plan(run.out)


def resumed(recipe: RecipeT) -> RecipeT:
    """Return the recipe with the batch size of the run in its folder, if it names none itself."""
    size = recipe.batch_size or recorded_batch_size(Path(recipe.out))
    return dataclasses.replace(recipe, batch_size=size)


@contextlib.contextmanager
def _prepared(
    recipe: RunRecipe,
    kind: SourceKind,
    verifier: AnyVerifier | None = None,
    progress: UnitProgress | None = None,
) -> Iterator[Run]:
    """Yield the run of a recipe: everything is checked and nothing is written."""
    # Samples of problems behind the limit may be in a file, and are no strangers there.
    limit = recipe.limit if isinstance(recipe, EvalRecipe) else None
    problems, _ = read_problems(recipe.problems, limit=limit)
    check_by((problem.meta for problem in problems.values()), recipe.by)
    with contextlib.ExitStack() as opened:
        verifier = verifier or opened.enter_context(recipe.verifier.open())
        yield Run(recipe, kind(recipe, problems, verifier), verifier, progress)


def _training_of(recipe: EvalRecipe) -> dict[str, Any]:
    """Return the recipe that a model folder was trained with, if any; warn of other prompts."""
    file = Path(recipe.model) / TRAIN_RECORD
    if not file.is_file():
        return {}
    trained: dict[str, Any] = read_training(file.parent).get("recipe", {})
    difference = prompt_difference(trained.get("prompt") or {}, recipe.prompt)
    if difference is not None:
        _log.warning("%s was trained on other prompts: %s", recipe.model, difference)
    return {"training": masked(trained)}
