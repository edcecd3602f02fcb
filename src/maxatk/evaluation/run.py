"""A run: samples of problems, their scores and their results, in a folder that can be resumed."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.environment import environment
from maxatk.errors import DataError
from maxatk.evaluation import folder
from maxatk.evaluation.failures import FailureStore
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.recipe import EvalRecipe, RunRecipe, ScoreRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import Scorer
from maxatk.evaluation.scoring_thread import scoring_thread
from maxatk.evaluation.shards import Shard, ShardPlan
from maxatk.evaluation.siblings import SHARD, check_siblings
from maxatk.evaluation.store import Key, Store, key_of
from maxatk.evaluation.submissions import Submission, read_submissions, submission
from maxatk.evaluation.tally import build_results
from maxatk.exchange import parse_mapping
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
    """Samples of problems, and the folder for their scores and results.

    A subclass says where the samples come from. Raises InvalidValueError for a k above the samples
    of the problem with the `fewest`, a `by` that no problem has, and a problem that lacks what the
    reward needs. A shard is held to all of that for all problems, and takes its slice of them.
    Only `carry_out` writes.
    """

    sample_settings: Mapping[str, Any]
    """What decides the samples, of which a subclass knows: part of what identifies the folder."""

    total: int
    """The number of samples, known to a subclass."""

    def __init__(
        self,
        recipe: RunRecipe,
        problems: Mapping[str, Problem],
        verifier: Verifier,
        *,
        fewest: int,
    ) -> None:
        check_ks(recipe.k, fewest)
        check_by((problem.meta for problem in problems.values()), recipe.by)
        self.recipe = recipe
        self.shard = None if recipe.shard is None else Shard.read(recipe.shard)
        count = len(problems)
        self.part = range(count) if self.shard is None else self.shard.part(count)
        self.problems = dict(itertools.islice(problems.items(), self.part.start, self.part.stop))
        self.verifier = verifier
        self.out = recipe.folder
        self._folder = folder.out_folder(self.out)
        self._folder.check()
        self.samples: Mapping[Key, Sample] = {}  # all of them once `draw` has ended
        self.remarks: dict[str, Any] = {}  # what else the manifest says of the samples
        self._scorer = Scorer(recipe.reward, problems, verifier)

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies the content of the folder: what decides samples, and what scores."""
        settings = {**self.sample_settings, **self._scorer.settings}
        return settings if self.shard is None else {**settings, SHARD: str(self.shard)}

    def _check_folder(self, problems: Mapping[str, Problem], samples: Path | None = None) -> None:
        """Refuse a folder of other settings; a shard cannot grow by problems, which move all."""
        grows = list(problems.values()) if self.shard is None else []
        folder.check_folder(self.out, self.settings, grows=grows, samples=samples)
        if self.shard is not None:
            check_siblings(self.out, self.settings, samples=samples)

    @abc.abstractmethod
    def places(self) -> Iterable[int]:
        """Return the places of the samples of a shard among those of the whole run, ascending."""

    @abc.abstractmethod
    def draw(
        self, scored: Container[Key], progress: UnitProgress
    ) -> Generator[Sequence[Submission], None, None]:
        """Yield submissions in order, those that are `scored` left out where that is cheap."""

    @abc.abstractmethod
    def plan(self) -> dict[str, int]:
        """Return what is left to do in the folder."""

    def carry_out(self, progress: UnitProgress | None) -> Results:
        """Draw what the folder lacks, score it in a thread, and return the results."""
        with self._folder.alone():
            return self._carry_out(progress)

    def _carry_out(self, progress: UnitProgress | None) -> Results:
        started = time.monotonic()
        report: UnitProgress = progress or (lambda _done, _total, _unit: None)
        folder.write_manifest(self.out, self.settings)
        if self.shard is not None:
            ShardPlan.of_places(self.places(), k=self.recipe.k).write(self.out)
        failures = FailureStore(self.out / folder.FAILURES)
        with failures, Store(self.out / folder.SCORES, Score) as scores:

            def score_batch(batch: Sequence[Submission]) -> None:
                for scored in self._scorer.score(batch):
                    # The failures first, so that a kill between the two loses none.
                    failures.add(failure for _, failure in scored)
                    scores.append(score for score, _ in scored)
                    report(len(scores.records), self.total, "scores")

            drawing = self.draw(scores.records, report)
            with scoring_thread(score_batch) as put, contextlib.closing(drawing) as drawn:
                self._refuse_strangers(scores)
                report(len(scores.records), self.total, "scores")
                for submissions in drawn:
                    put([s for s in submissions if key_of(s.sample) not in scores.records])
        results = self._results(scores.records.values(), seconds=time.monotonic() - started)
        self._write(results)
        return results

    def _refuse_strangers(self, store: Store[Any]) -> None:
        for problem_id, sample in store.records:
            if problem_id not in self.problems:
                raise DataError(
                    f"{store.path}: sample {sample} of an unknown problem {problem_id!r}"
                )

    def _results(self, scores: Iterable[Score], *, seconds: float) -> Results:
        problems = self.recipe.problems
        manifest = {
            "settings": masked(self.settings),
            "environment": environment(),
            "isolation": dict(self.verifier.isolation),
            "problems_file": str(problems) if isinstance(problems, (str, Path)) else None,
            "seconds": round(seconds, 3),
            **self.remarks,
        }
        return build_results(
            list(self.problems),
            self.samples.values(),
            scores,
            manifest=manifest,
            ks=self.recipe.k,
            threshold=self.recipe.threshold,
            meta=[problem.meta for problem in self.problems.values()],
        )

    def _write(self, results: Results) -> None:
        is_empty = results.counts.unscored == results.counts.samples
        if is_empty and self.shard is None:  # the other shards may have what can be shown
            raise DataError(f"{self.out}: nothing can be shown: {results.counts.lacking}")
        prompts = (
            {"problem_id": problem.id, "prompt": problem.prompt}
            for problem in self.problems.values()
        )
        write_jsonl(self.out / folder.PROMPTS, prompts)
        write_json(self.out / folder.RESULTS, results.to_json())


class SampledEvaluation(Evaluation):
    """Samples that a backend draws; raises as `load_backend` and its `prepare`.

    Raises InvalidValueError where the folder holds samples or scores of other settings.
    """

    def __init__(
        self, recipe: EvalRecipe, verifier: Verifier, backend: Backend | None = None
    ) -> None:
        reads = {"model": recipe.model, "adapter": recipe.adapter}
        folder.out_folder(recipe.folder, reads=reads).check()  # before a model is loaded
        problems = read_problems(
            recipe.problems, limit=recipe.limit, mapping=parse_mapping(recipe.map)
        )
        samples = recipe.sampling.samples
        super().__init__(recipe, problems, verifier, fewest=samples)
        self.total = len(self.problems) * samples
        self._sampling = recipe.sampling
        self._backend = backend or self._load_backend(recipe)
        prompts = {problem.id: problem.prompt for problem in problems.values()}
        self._backend.prepare(prompts, recipe.sampling)
        self._remark_training(recipe)
        self.sample_settings = {
            "model": self._backend.describe(),
            "sampling": recipe.sampling.to_json(),
        }
        self._check_folder(problems)

    def places(self) -> Iterable[int]:
        """Return the places of the samples of a shard: its slice of the problems is contiguous."""
        samples = self._sampling.samples
        return range(self.part.start * samples, self.part.stop * samples)

    def _load_backend(self, recipe: EvalRecipe) -> Backend:
        # The draws of some backends depend on the batch, so that a run goes on in its own size.
        batch_size = recipe.batch_size or folder.recorded_batch_size(self.out)
        return load_backend(recipe.model, dataclasses.replace(recipe, batch_size=batch_size))

    def _remark_training(self, recipe: EvalRecipe) -> None:
        record = Path(recipe.model) / TRAIN_RECORD
        if not record.is_file():
            return
        trained: dict[str, Any] = read_training(record.parent).get("recipe", {})
        self.remarks["training"] = masked(trained)
        difference = prompt_difference(trained.get("prompt") or {}, recipe.prompt)
        if difference is not None:
            _log.warning("%s was trained on other prompts: %s", recipe.model, difference)

    def draw(
        self, scored: Container[Key], progress: UnitProgress
    ) -> Generator[Sequence[Submission], None, None]:
        """Yield the samples that are there, then those that are drawn, each as soon as stored.

        They are stored in the order of the problems before they are scored: the files of an
        interrupted run are prefixes of those of an uninterrupted one.
        """
        with Store(self.out / folder.SAMPLES, Sample) as store:
            self._refuse_strangers(store)
            stored = store.records  # which grows with `store`
            self.samples = stored
            self.remarks["samples_found"] = len(stored)
            progress(len(stored), self.total, "samples")
            yield self._submissions(sample for key, sample in stored.items() if key not in scored)
            requests = self._requests(stored)
            if not requests:
                return
            for batch in self._backend.sample(requests, self._sampling):
                store.append(batch)
                progress(len(stored), self.total, "samples")
                yield self._submissions(batch)

    def _requests(self, stored: Container[Key]) -> list[Request]:
        """Return what is still to be drawn of every problem that lacks samples."""
        requests = []
        for problem in self.problems.values():
            missing = [i for i in range(self._sampling.samples) if (problem.id, i) not in stored]
            if missing:
                requests.append(Request(problem.id, problem.prompt, missing))
        return requests

    def plan(self) -> dict[str, int]:
        """Return how many samples are left to draw, and the most tokens they have."""
        stored = folder.count_lines(self.out / folder.SAMPLES)
        missing = max(self.total - stored, 0)
        return {
            "problems": len(self.problems),
            "samples": self.total,
            "found": stored,
            "most_tokens": missing * self._sampling.max_new_tokens,
        }

    def _submissions(self, samples: Iterable[Sample]) -> list[Submission]:
        extract = self.verifier.program_of
        return [submission(sample, self.problems[sample.problem_id], extract) for sample in samples]


class FiledEvaluation(Evaluation):
    """Samples of a file; raises as `read_submissions`, and DataError for a problem without any.

    Raises InvalidValueError where the folder holds scores of other settings.
    """

    def __init__(self, recipe: ScoreRecipe, verifier: Verifier) -> None:
        file = Path(recipe.samples)
        problems = read_problems(recipe.problems)
        submissions = read_submissions(
            file,
            problems,
            log_format=recipe.format,
            mapping=recipe.map,
            extract=verifier.program_of,
        )
        # Samples of problems behind the limit may be in the file, and are no strangers there.
        problems = dict(itertools.islice(problems.items(), recipe.limit))
        submissions = [s for s in submissions if s.sample.problem_id in problems]
        counts = Counter(submission.sample.problem_id for submission in submissions)
        missing = [problem_id for problem_id in problems if problem_id not in counts]
        if missing:
            raise DataError(
                f"{file}: no sample for {len(missing)} of {len(problems)} problems, the "
                f"first {missing[0]!r}; score the problems that were sampled, or sample the rest"
            )
        super().__init__(recipe, problems, verifier, fewest=min(counts.values()))
        self._places = [
            place
            for place, submission in enumerate(submissions)
            if submission.sample.problem_id in self.problems
        ]
        self._submissions = [submissions[place] for place in self._places]
        self.total = len(self._submissions)
        self.samples = {key_of(s.sample): s.sample for s in self._submissions}
        self.remarks["samples_file"] = str(file)
        self.sample_settings = {
            "samples": {"sha256": file_digest(file), "bytes": file.stat().st_size}
        }
        self._check_folder(problems, samples=file)

    def places(self) -> Iterable[int]:
        """Return the places of the samples in the file, which need not be sorted by problem."""
        return self._places

    def draw(
        self, scored: Container[Key], _: UnitProgress
    ) -> Generator[Sequence[Submission], None, None]:
        """Yield at once all that have no score.

        A shard keeps its samples, from which `merge` tells how they ended without the file.
        """
        if self.shard is not None:
            write_jsonl(
                self.out / folder.SAMPLES, (sample.to_json() for sample in self.samples.values())
            )
        yield [s for s in self._submissions if key_of(s.sample) not in scored]

    def plan(self) -> dict[str, int]:
        """Return how many programs and tests there are, programs of equal text counted once."""
        distinct = {
            (submission.sample.problem_id, submission.program) for submission in self._submissions
        }
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
