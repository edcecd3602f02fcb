"""Runs whose samples are in a file, ours or another tool's."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Generator, Iterable, Sequence
from pathlib import Path

from maxatk.errors import DataError, counted
from maxatk.evaluation import folder
from maxatk.evaluation.evaluation import Evaluation, UnitProgress
from maxatk.evaluation.recipe import ScoreRecipe
from maxatk.evaluation.store import Key, key_of
from maxatk.evaluation.submissions import Submission, read_submissions
from maxatk.folders import file_digest
from maxatk.jsonl import write_jsonl
from maxatk.problems.load import read_problems
from maxatk.verifier import Verifier


class FiledEvaluation(Evaluation):
    """Samples of a file; raises as `read_submissions`, and DataError for a problem without any.

    Raises InvalidValueError where the folder holds scores of other settings.
    """

    def __init__(
        self, recipe: ScoreRecipe, verifier: Verifier, *, for_reading: bool = False
    ) -> None:
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
                f"{file}: no sample for {len(missing)} of {counted(len(problems))}, the "
                f"first {missing[0]!r}; score the problems that were sampled, or sample the rest"
            )
        fewest = min(counts.values())
        super().__init__(recipe, problems, verifier, fewest=fewest, for_reading=for_reading)
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

        The folder keeps the samples, for whoever looks at them or chooses by them.
        """
        rows = (sample.to_json() for sample in self.samples.values())
        write_jsonl(self.out / folder.SAMPLES, rows)
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
