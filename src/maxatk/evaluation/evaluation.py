"""What every run does: it scores samples and writes results, in a folder that can be resumed."""

from __future__ import annotations

import abc
import contextlib
import itertools
import time
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.environment import environment
from maxatk.errors import DataError
from maxatk.evaluation import folder
from maxatk.evaluation.build_results import build_results
from maxatk.evaluation.failures import FailureStore
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import Scorer
from maxatk.evaluation.scoring_thread import scoring_thread
from maxatk.evaluation.shard_settings import SHARD, check_siblings
from maxatk.evaluation.shards import Shard, ShardPlan
from maxatk.evaluation.store import Key, Store, key_of
from maxatk.evaluation.submissions import Submission
from maxatk.folders import write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, Score
from maxatk.settings import masked
from maxatk.statistics.intervals import check_ks
from maxatk.verifier import Verifier

UnitProgress = Callable[[int, int, str], object]
"""Called as progress(done, total, unit), from the sampling and from the verification thread."""


class Evaluation(abc.ABC):
    """Samples of problems, and the folder for their scores and results.

    A subclass says where the samples come from. Its `__init__` calls this one first, which sets the
    problems of a shard. Then it sets `sample_settings` and `total`, and last it calls
    `_check_folder`, which compares the settings with those of the folder.

    Only `carry_out` writes: one made `for_reading` alone is made while another process writes too.
    A shard is held to what is said below for all problems, and takes its slice of them.

    Raises InvalidValueError for a k above the samples of the problem with the `fewest`, a `by` that
    no problem has, and a problem that lacks what the reward needs.
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
        for_reading: bool = False,
    ) -> None:
        check_ks(recipe.k, fewest)
        check_by((problem.meta for problem in problems.values()), recipe.by)
        self.recipe = recipe
        self.shard = None if recipe.shard is None else Shard.read(recipe.shard)
        count = len(problems)
        self.problem_range = range(count) if self.shard is None else self.shard.range_of(count)
        shard_problems = itertools.islice(
            problems.items(), self.problem_range.start, self.problem_range.stop
        )
        self.problems = dict(shard_problems)
        self.verifier = verifier
        self.out = recipe.folder
        self._folder = folder.out_folder(self.out)
        self._folder.check(for_reading=for_reading)
        self.samples: Mapping[Key, Sample] = {}  # all of them once `draw` has ended
        self.remarks: dict[str, Any] = {}  # what else the manifest says of the samples
        self._scorer = Scorer(recipe.reward, problems, verifier)

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies the content of the folder: what decides samples, and what scores."""
        settings = {**self.sample_settings, **self._scorer.settings}
        return settings if self.shard is None else {**settings, SHARD: str(self.shard)}

    def _check_folder(self, problems: Mapping[str, Problem], samples: Path | None = None) -> None:
        """Refuse a folder of other settings."""
        # A shard cannot grow by problems, since more of them move the ranges of all shards.
        growing_problems = list(problems.values()) if self.shard is None else []
        folder.check_folder(
            self.out, self.settings, may_grow=True, problems=growing_problems, samples=samples
        )
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

    def try_reward(self) -> dict[str, list[float | str | None]]:
        """Return what functions of the user's own give for three completions, or fail with.

        Raises InvalidValueError where one fails for all of them.
        """
        return self._scorer.try_out()

    def carry_out(self, progress: UnitProgress | None) -> Results:
        """Draw what the folder lacks, score it beside that, and return the results."""
        report: UnitProgress = progress or (lambda _done, _total, _unit: None)
        with self._folder.alone():
            started = time.monotonic()
            folder.write_manifest(self.out, self.settings, threshold=self.recipe.threshold)
            if self.shard is not None:
                ShardPlan.of_places(self.places(), k=self.recipe.k).write(self.out)
            scores = self._all_scores(report)
            results = self._results(scores, seconds=time.monotonic() - started)
            self._write(results)
        return results

    def _all_scores(self, report: UnitProgress) -> Iterable[Score]:
        """Score in a thread what the folder lacks, as it is drawn, and return all its scores."""
        failures = FailureStore(self.out / folder.FAILURES)
        with failures, Store(self.out / folder.SCORES, Score) as stored:
            # What has no score is scored anew, perhaps by other limits or another program.
            failures.keep(stored.records)

            def score_batch(batch: Sequence[Submission]) -> None:
                for scored in self._scorer.score(batch):
                    # The failures first, so that a kill between the two loses none.
                    failures.add(failure for _, failure in scored)
                    stored.append(score for score, _ in scored)
                    report(len(stored.records), self.total, "scores")

            drawing = self.draw(stored.records, report)
            with scoring_thread(score_batch) as put, contextlib.closing(drawing) as batches:
                self._refuse_strangers(stored)
                report(len(stored.records), self.total, "scores")
                for batch in batches:
                    put([s for s in batch if key_of(s.sample) not in stored.records])
        return stored.records.values()

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
