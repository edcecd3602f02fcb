"""Runs whose samples a model draws, one after the other, each stored before it is scored."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Container, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from maxatk.check import require
from maxatk.evaluation import folder
from maxatk.evaluation.evaluation import Evaluation, UnitProgress
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.evaluation.store import Key, Store
from maxatk.evaluation.submissions import Submission, submission
from maxatk.exchange import parse_mapping
from maxatk.folders import TRAIN_RECORD, read_training
from maxatk.models import prompt_difference
from maxatk.problems.load import read_problems
from maxatk.records import Sample
from maxatk.sampling import Backend, Request, load_backend
from maxatk.settings import masked
from maxatk.verifier import Verifier

_log = logging.getLogger(__name__)


class SampledEvaluation(Evaluation):
    """Samples that a backend draws; raises as `load_backend` and its `prepare`.

    Raises InvalidValueError where the folder holds samples or scores of other settings.
    """

    def __init__(
        self,
        recipe: EvalRecipe,
        verifier: Verifier,
        backend: Backend | None = None,
        *,
        for_reading: bool = False,
    ) -> None:
        # Not in the recipe: the command line makes one whose required keys are yet to come.
        is_named = isinstance(recipe.model, str) and recipe.model != ""
        require(is_named, "model", "a folder or a name", recipe.model)
        reads = {"model": recipe.model, "adapter": recipe.adapter}
        written = folder.out_folder(recipe.folder, reads=reads)
        written.check(for_reading=for_reading)  # before a model is loaded
        problems = read_problems(
            recipe.problems, limit=recipe.limit, mapping=parse_mapping(recipe.map)
        )
        samples = recipe.sampling.samples
        super().__init__(recipe, problems, verifier, fewest=samples, for_reading=for_reading)
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
        problems = self.problem_range
        return range(problems.start * samples, problems.stop * samples)

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
