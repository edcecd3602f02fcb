"""A run: samples of problems, their scores and their results, in a folder that can be resumed."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.environment import environment
from maxatk.errors import DataError
from maxatk.evaluation import folder
from maxatk.evaluation.failures import FailureStore
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.recipe import EvalRecipe, RunRecipe, ScoreRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import Scorer, scoring_thread
from maxatk.evaluation.store import Key, Store, key_of
from maxatk.evaluation.submissions import Submission, read_submissions, submission
from maxatk.evaluation.tally import build_results
from maxatk.folders import TRAIN_RECORD, file_digest, read_training, write_json
from maxatk.jsonl import write_jsonl
from maxatk.models import prompt_difference
from maxatk.problems.load import read_problems
from maxatk.records import Problem, Sample, Score
from maxatk.sampling import Backend, Request, load_backend
from maxatk.settings import masked
from maxatk.statistics.intervals import check_ks
from maxatk.verifier import Verifier

UnitProgress = Callable[[int, int, str], object]
"""Called as progress(done, total, unit), from the sampling and from the verification thread."""

_log = logging.getLogger(__name__)


class Evaluation(abc.ABC):
    """A run of `total` samples and its folder; a subclass is where the samples come from.

    Raises InvalidValueError for a k above the samples of the problem with the `fewest`, a `by` that
    no problem has, and a problem that lacks what the reward needs; only `carry_out` writes.
    """

    samples: Mapping[Key, Sample]

    def __init__(
        self,
        recipe: RunRecipe,
        problems: Mapping[str, Problem],
        verifier: Verifier,
        *,
        total: int,
        fewest: int,
    ) -> None:
        check_ks(recipe.k, fewest)
        check_by((problem.meta for problem in problems.values()), recipe.by)
        self.recipe, self.problems, self.verifier = recipe, problems, verifier
        self.out, self.total = Path(recipe.out), total
        self.remarks: dict[str, Any] = {}  # what else the manifest says of the samples
        self._scorer = Scorer(recipe.reward, problems, verifier)

    def _claim(self, settings: Mapping[str, Any], *, file: Path | None = None) -> None:
        """Take the folder for the samples that `settings` decide; raises where it holds others."""
        self.settings = {**settings, **self._scorer.settings}
        problems = list(self.problems.values())
        folder.check_folder(self.out, self.settings, grows=problems, samples=file)

    @abc.abstractmethod
    def draw(self) -> Generator[Sequence[Submission], None, None]:
        """Yield the submissions that may lack a score, in order; `samples` has all at the end."""

    @abc.abstractmethod
    def plan(self) -> dict[str, int]:
        """Return what is left to do in the folder."""

    def carry_out(self, progress: UnitProgress | None) -> Results:
        """Draw what the folder lacks, score it in a thread, and return the results."""
        started = time.monotonic()
        self._progress: UnitProgress = progress or (lambda _done, _total, _unit: None)
        folder.write_manifest(self.out, self.settings)
        self._failures = FailureStore(self.out / folder.FAILURES)
        with (
            self._failures,
            Store(self.out / folder.SCORES, Score) as self._scores,
            scoring_thread(self._score) as put,
            contextlib.closing(self.draw()) as drawn,
        ):
            self._refuse_strangers(self._scores)
            self._progress(len(self._scores.records), self.total, "scores")
            for submissions in drawn:
                put([s for s in submissions if key_of(s.sample) not in self._scores.records])
        return self._finish(time.monotonic() - started)

    def _refuse_strangers(self, store: Store[Any]) -> None:
        for problem_id, sample in store.records:
            if problem_id not in self.problems:
                raise DataError(
                    f"{store.path}: sample {sample} of an unknown problem {problem_id!r}"
                )

    def _score(self, batch: Sequence[Submission]) -> None:
        for scored in self._scorer.score(batch):
            # The failures first, so that a kill between the two loses none.
            self._failures.add(failure for _, failure in scored)
            self._scores.append(score for score, _ in scored)
            self._progress(len(self._scores.records), self.total, "scores")

    def _finish(self, seconds: float) -> Results:
        chosen, recipe = self.problems.values(), self.recipe
        named = isinstance(recipe.problems, (str, Path))
        manifest = {
            "settings": masked(self.settings),
            "environment": environment(),
            "isolation": dict(self.verifier.isolation),
            "problems_file": str(recipe.problems) if named else None,
            "seconds": round(seconds, 3),
            **self.remarks,
        }
        results = build_results(
            list(self.problems),
            self.samples.values(),
            self._scores.records.values(),
            manifest=manifest,
            ks=recipe.k,
            threshold=recipe.threshold,
            meta=[problem.meta for problem in chosen],
        )
        if results.counts.unscored == results.counts.samples:
            raise DataError(f"{self.out}: nothing can be shown: {results.counts.lacking}")
        prompts = ({"problem_id": problem.id, "prompt": problem.prompt} for problem in chosen)
        write_jsonl(self.out / folder.PROMPTS, prompts)
        write_json(self.out / folder.RESULTS, results.to_json())
        return results


class SampledEvaluation(Evaluation):
    """Samples that a backend draws; raises as `load_backend` and its `prepare`."""

    def __init__(
        self, recipe: EvalRecipe, verifier: Verifier, backend: Backend | None = None
    ) -> None:
        problems = read_problems(recipe.problems, limit=recipe.limit)
        samples = recipe.sampling.samples
        total = len(problems) * samples
        super().__init__(recipe, problems, verifier, total=total, fewest=samples)
        self._sampling = recipe.sampling
        size = recipe.batch_size or folder.recorded_batch_size(self.out)
        running = dataclasses.replace(recipe, batch_size=size)
        self._backend = backend or load_backend(recipe.model, running)
        prompts = {problem.id: problem.prompt for problem in problems.values()}
        self._backend.prepare(prompts, recipe.sampling)
        record = Path(recipe.model) / TRAIN_RECORD
        if record.is_file():
            trained: dict[str, Any] = read_training(record.parent).get("recipe", {})
            self.remarks["training"] = masked(trained)
            difference = prompt_difference(trained.get("prompt") or {}, recipe.prompt)
            if difference is not None:
                _log.warning("%s was trained on other prompts: %s", recipe.model, difference)
        self._claim({"model": self._backend.describe(), "sampling": recipe.sampling.to_json()})

    def draw(self) -> Generator[Sequence[Submission], None, None]:
        """Yield the samples that are there, then those that are drawn, each as soon as stored.

        They are stored in the order of the problems before they are scored: the files of an
        interrupted run are prefixes of those of an uninterrupted one.
        """
        with Store(self.out / folder.SAMPLES, Sample) as store:
            self._refuse_strangers(store)
            found = self.samples = store.records
            self.remarks["samples_found"] = len(found)
            self._progress(len(found), self.total, "samples")
            yield self._submissions(s for k, s in found.items() if k not in self._scores.records)
            indices = range(self._sampling.samples)
            wanted = (
                Request(p.id, p.prompt, [i for i in indices if (p.id, i) not in found])
                for p in self.problems.values()
            )
            missing = [request for request in wanted if request.indices]
            for drawn in self._backend.sample(missing, self._sampling) if missing else ():
                store.append(drawn)
                self._progress(len(found), self.total, "samples")
                yield self._submissions(drawn)

    def plan(self) -> dict[str, int]:
        """Return how many samples are left to draw, and the most tokens they have."""
        found = folder.count_lines(self.out / folder.SAMPLES)
        tokens = max(self.total - found, 0) * self._sampling.max_new_tokens
        counts = {"problems": len(self.problems), "samples": self.total, "found": found}
        return {**counts, "most_tokens": tokens}

    def _submissions(self, samples: Iterable[Sample]) -> list[Submission]:
        extract = self.verifier.program_of
        return [submission(s, self.problems[s.problem_id], extract) for s in samples]


class FiledEvaluation(Evaluation):
    """Samples of a file; raises as `read_submissions`, and DataError for a problem without any."""

    def __init__(self, recipe: ScoreRecipe, verifier: Verifier) -> None:
        file = Path(recipe.samples)
        problems = read_problems(recipe.problems)
        found = read_submissions(
            file,
            problems,
            log_format=recipe.format,
            mapping=recipe.map,
            extract=verifier.program_of,
        )
        # Samples of problems behind the limit may be in the file, and are no strangers there.
        problems = dict(itertools.islice(problems.items(), recipe.limit))
        self._submissions = [f for f in found if f.sample.problem_id in problems]
        self.samples = {key_of(f.sample): f.sample for f in self._submissions}
        counts = Counter(problem_id for problem_id, _ in self.samples)
        missing = [problem_id for problem_id in problems if problem_id not in counts]
        if missing:
            raise DataError(
                f"{file}: no sample for {len(missing)} of {len(problems)} problems, the "
                f"first {missing[0]!r}; score the problems that were sampled, or sample the rest"
            )
        total, fewest = len(self._submissions), min(counts.values())
        super().__init__(recipe, problems, verifier, total=total, fewest=fewest)
        self.remarks["samples_file"] = str(file)
        content = {"sha256": file_digest(file), "bytes": file.stat().st_size}
        self._claim({"samples": content}, file=file)

    def draw(self) -> Generator[Sequence[Submission], None, None]:
        """Yield all of them at once."""
        yield self._submissions

    def plan(self) -> dict[str, int]:
        """Return how many programs and tests there are, programs of equal text counted once."""
        distinct = {(found.sample.problem_id, found.program) for found in self._submissions}
        return {
            "problems": len(self.problems),
            "samples": self.total,
            "found": folder.count_lines(self.out / folder.SCORES),
            "distinct": len(distinct),
            "tests": sum(len(self.problems[problem_id].tests) for problem_id, _ in distinct),
        }


def evaluate(
    recipe: EvalRecipe,
    *,
    backend: Backend | None = None,
    verifier: Verifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Sample a model on every problem, score the samples beside it, and return the results.

    The folder gets samples.jsonl, scores.jsonl, failures.jsonl, prompts.jsonl, manifest.json and
    results.json. The same call continues a killed run, with the same samples as an uninterrupted
    one. Other settings are refused, but a run may grow by samples, and by problems behind its own.

    A `backend` or a `verifier` that is given is open, and stays so; else the recipe says which.
    `progress` is called with (done, total, "samples" or "scores"), from two threads.

    Raises MissingFileError (problems, model), DataError (problems, the folder's files) and
    InvalidValueError (settings, the folder's manifest) before any sampling; ServerError later.
    """
    with _opened(recipe, verifier) as verifier:
        return SampledEvaluation(recipe, verifier, backend).carry_out(progress)


def score(
    recipe: ScoreRecipe,
    *,
    verifier: Verifier | None = None,
    progress: UnitProgress | None = None,
) -> Results:
    """Score the samples of a file and return the results.

    The folder gets what that of `evaluate` does but the samples. The same call continues one that
    was killed, and one whose samples or problems have grown at their end scores what is new.

    Raises MissingFileError, DataError (an unreadable line, a sample of an unknown problem, a
    problem without samples) or InvalidValueError (k, settings), all before any verification.
    """
    with _opened(recipe, verifier) as verifier:
        return FiledEvaluation(recipe, verifier).carry_out(progress)


def plan(recipe: EvalRecipe | ScoreRecipe) -> dict[str, int]:
    """Return what `evaluate` or `score` would do, as counts; nothing is written. Raises as they do.

    Of problems, samples, those "found", and the most new tokens or distinct programs and tests.
    """
    with recipe.verifier.open() as verifier:
        if isinstance(recipe, EvalRecipe):
            return SampledEvaluation(recipe, verifier).plan()
        return FiledEvaluation(recipe, verifier).plan()


def _opened(
    recipe: RunRecipe, verifier: Verifier | None
) -> contextlib.AbstractContextManager[Verifier]:
    return recipe.verifier.open() if verifier is None else contextlib.nullcontext(verifier)
