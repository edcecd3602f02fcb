"""What programs print for given inputs, where nothing is compared: the values of `Verifier.run`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError
from maxatk.python_numbers import use_python_numbers
from maxatk.records import Outcome, TestCase, TestResult, Verdict
from maxatk.verifier.jobs import Job


@dataclasses.dataclass(frozen=True)
class Output:
    """What a program did with one input.

    `outcome` is `ended` where it ended well, and otherwise the outcome of a test that fails before
    anything is compared, such as `time_limit`. `printed` is the beginning of its standard output,
    "" where it did not end well; `complete` says that this is all of it. `stderr` is an excerpt,
    the seconds and bytes are those of a `TestResult`.
    """

    outcome: Outcome
    printed: str
    complete: bool
    stderr: str
    cpu_seconds: float
    wall_seconds: float
    peak_memory: int


@dataclasses.dataclass(frozen=True)
class RunJob(Job):
    """A job whose tests have no expected output: the beginning of what is printed is the result."""

    most_characters: int = 1  # that are shown of an output

    def __post_init__(self) -> None:
        use_python_numbers(self, "most_characters")
        whole("most_characters", self.most_characters, 1)
        super().__post_init__()

    def beginning(self, output: bytes) -> str:
        """Return what is kept of an output: a character more than is shown, where it is longer."""
        kept = self.most_characters + 1
        # Four bytes a character at most; one that is cut in two lies behind what is kept.
        return output[: 4 * kept].decode("utf-8", "replace")[:kept]

    def outputs(self, verdict: Verdict) -> list[Output]:
        """Return what the program did with each input."""
        return [self._output(result) for result in verdict.tests]

    def _output(self, result: TestResult) -> Output:
        fits = len(result.got) <= self.most_characters
        return Output(
            outcome=result.outcome,
            printed=result.got[: self.most_characters],
            complete=fits and result.outcome is Outcome.ENDED,
            stderr=result.stderr,
            cpu_seconds=result.cpu_seconds,
            wall_seconds=result.wall_seconds,
            peak_memory=result.peak_memory,
        )


def run_jobs(
    programs: Sequence[str],
    inputs: Sequence[str],
    *,
    most_characters: int,
    time_limit: float | None,
    memory_limit: int | None,
    language: str | None,
) -> list[RunJob]:
    """Return the job of each program; raises InvalidValueError for what is not allowed."""
    for field, texts in {"programs": programs, "inputs": inputs}.items():
        is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
        are_texts = is_list and all(isinstance(text, str) for text in texts)
        require(are_texts, field, "a list of strings", texts)
    if not inputs:
        raise InvalidValueError("inputs: must be one string or more")
    tests = tuple(TestCase(input=text, output="") for text in inputs)
    return [
        RunJob(
            program,
            tests,
            time_limit=time_limit,
            memory_limit=memory_limit,
            language=language,
            most_characters=most_characters,
        )
        for program in programs
    ]
