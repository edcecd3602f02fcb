"""The records that cross packages, as lines of JSON: problems, tests, samples and scores."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
from collections.abc import Mapping
from typing import Any

from maxatk.check import LARGEST, MOST_BYTES, MOST_SECONDS, is_number, mapping, require
from maxatk.errors import DataError, InvalidValueError
from maxatk.python_numbers import use_python_numbers
from maxatk.settings import refuse_unknown, typed


class Outcome(str, enum.Enum):
    """What happened to one test of one program."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    ENDED = "ended"  # well, in a run whose output is compared with nothing
    UNFINISHED_THOUGHT = "unfinished_thought"  # the reasoning never ends: there is no answer
    OTHER_LANGUAGE = "other_language"  # the answer is in a language that the problem does not take
    NOT_RUN = "not_run"
    INFRA_ERROR = "infra_error"
    SCORED = "scored"  # a reward that no tests gave: a function's, or one from outside
    NO_REWARD = "no_reward"  # None of a function, or nothing in a file of rewards
    REWARD_ERROR = "reward_error"  # a function raised, took too long or returned no number

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class TestCase:
    r"""One test of a program, of one of three kinds.

    - `TestCase(input="1 2\n", output="3\n")`: standard input and expected standard output.
    - `TestCase(call="f(1, 2)", output="3")`: a call of the program's function and the expected
      value, both as Python literals.
    - `TestCase(check="def check(candidate): ...")`: a function that asserts on the entry point.

    Raises InvalidValueError when the fields do not form exactly one of these kinds.
    """

    __test__ = False  # the name starts with "Test": pytest must not collect it

    input: str | None = None
    output: str | None = None
    call: str | None = None
    check: str | None = None

    def __post_init__(self) -> None:
        fields = self.to_json()
        if frozenset(fields) not in _TEST_KINDS:
            raise InvalidValueError(
                f"TestCase: got the fields {sorted(fields)}; allowed: input and output, "
                "call and output, or check alone"
            )
        for name, value in fields.items():
            require(isinstance(value, str), f"TestCase.{name}", "a string", value)

    def to_json(self) -> dict[str, str]:
        """Return the fields that are set, as in `problems.jsonl`."""
        return _without_none(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> TestCase:
        """Return the test of a JSON object; null fields count as absent, unknown ones raise."""
        mapping("test", row)
        refuse_unknown(row, list(cls.__dataclass_fields__), where="test")
        return cls(**{name: value for name, value in row.items() if value is not None})


_TEST_KINDS = (frozenset({"input", "output"}), frozenset({"call", "output"}), frozenset({"check"}))


_MOST = {
    "time_limit_s": MOST_SECONDS,
    "memory_limit_mb": MOST_BYTES >> 20,
    "tolerance": sys.float_info.max,
}
_TEXTS = (
    "entry_point", "starter_code", "compare", "checker", "source", "answer", "language",
    "checker_language",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem with its tests, its answer, or neither: a line of `problems.jsonl`.

    `tests` decide the reward of a program; by `visible_tests` it may be chosen. `answer` is that of
    a problem that asks for no program: text, or a number, which becomes text. `meta` holds fields
    of one's own: columns of rewards.

    `time_limit_s` (CPU seconds a test) and `memory_limit_mb` (MiB) are None for the verifier's own;
    `compare` names a rule of the verifier, `checker` is the program of the rule of that name.
    `language` is that of the programs, `checker_language` that of the checker, None for Python.
    `tolerance` is the absolute or relative error that floats inside the values of calls may have,
    None for 0.
    """

    id: str
    prompt: str
    tests: tuple[TestCase, ...] = ()
    entry_point: str | None = None
    starter_code: str | None = None
    time_limit_s: float | None = None
    memory_limit_mb: int | None = None
    compare: str | None = None
    checker: str | None = None
    source: str | None = None
    answer: str | None = None
    visible_tests: tuple[TestCase, ...] = ()
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tolerance: float | None = None
    language: str | None = None
    checker_language: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidValueError("Problem.id: must not be empty")
        use_python_numbers(self, *_MOST, "answer")
        if is_number(self.answer):
            object.__setattr__(self, "answer", str(self.answer))
        for name in ("id", "prompt"):
            value = getattr(self, name)
            require(isinstance(value, str), f"Problem.{name}", "a string", value)
            if not _is_unicode(value):  # no tokenizer and no file of UTF-8 takes it
                raise InvalidValueError(
                    f"Problem.{name}: must be Unicode, got half of a surrogate pair: {value!a:.80}"
                )
        where = f"Problem {self.id!r}"
        for name in _TEXTS:
            value = getattr(self, name)
            allowed = "text or a number" if name == "answer" else "text"
            require(isinstance(value, (str, type(None))), f"{where}: {name}", allowed, value)
        require(isinstance(self.meta, Mapping), f"{where}: meta", "an object", self.meta)
        if (self.compare == "checker") != (self.checker is not None):
            raise InvalidValueError(
                f"{where}: compare='checker' and a checker's source go together, got "
                f"compare={self.compare!r}, checker={self.checker!r:.50}"
            )
        for name, most in _MOST.items():
            limit = getattr(self, name)
            holds = limit is None or (is_number(limit) and 0 < limit < math.inf)
            require(holds, f"{where}: {name}", "a finite number above 0", limit)
            require(limit is None or limit <= most, f"{where}: {name}", f"at most {most:g}", limit)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this problem, without the fields that are None or empty."""
        row = _without_none(self)
        for name in ("tests", "visible_tests"):
            row[name] = [test.to_json() for test in getattr(self, name)]
        for name in ("tests", "visible_tests", "meta"):
            if not row[name]:
                del row[name]
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Problem:
        """Return the problem of a JSON object; missing or unknown fields raise DataError."""
        mapping("problem", row)
        refuse_unknown(row, list(cls.__dataclass_fields__), where="problem")
        for name in ("id", "prompt"):
            if name not in row:
                raise DataError(f"problem: missing field {name!r}; got {sorted(row)}")
        # null stands for an absent field, but for the two that are needed: they are then refused.
        fields = {
            name: value
            for name, value in row.items()
            if value is not None or name in ("id", "prompt")
        }
        for name in ("tests", "visible_tests"):
            tests = fields.get(name, [])
            if not isinstance(tests, list) or not all(isinstance(test, Mapping) for test in tests):
                raise DataError(
                    f"problem: {name}: must be a list of objects such as "
                    '{"input": "2", "output": "4"}; of asserts and of other names '
                    "`maxatk problems prepare table --map tests=COLUMN` makes them"
                )
            fields[name] = tuple(TestCase.from_json(test) for test in tests)
        return cls(**fields)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclasses.dataclass(frozen=True, slots=True)  # a run has millions of them
class Sample:
    """One completion of one problem: a line of `samples.jsonl`.

    `logprob` is the sum of its tokens' log-probabilities in nats, `entropy` the mean entropy of
    their distributions in nats, at the sampling temperature; None where the backend has none.
    """

    problem_id: str
    sample: int
    completion: str
    tokens: int | None = None
    finish_reason: str | None = None
    logprob: float | None = None
    entropy: float | None = None

    def __post_init__(self) -> None:
        use_python_numbers(self, "sample", "tokens", "logprob", "entropy")
        for name, value in (("sample", self.sample), ("tokens", self.tokens or 0)):
            if not 0 <= value < 1 << 63:
                allowed = "from 0" if value < 0 else "below 2^63"
                raise InvalidValueError(
                    f"sample: {name!r} must be an integer {allowed}, got {value!r:.60}"
                )
        for name, number in (("logprob", self.logprob), ("entropy", self.entropy)):
            if number is not None and not -LARGEST <= number <= LARGEST:  # sums of it are finite
                raise InvalidValueError(
                    f"sample: {name!r} must be a finite number of at most {LARGEST:g} in size, "
                    f"got {number!r:.60}"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this sample, without the fields that are None."""
        return _without_none(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Sample:
        """Return the sample of a JSON object, fields of other tools left out."""
        mapping("sample", row)
        fields = {name: row[name] for name in cls.__slots__ if name in row}
        return typed(fields, cls, where="sample")


@dataclasses.dataclass(frozen=True)
class TestResult:
    """What one test did: its outcome and what its process cost.

    `peak_memory` is its largest resident set in bytes, `stderr` an excerpt of what it wrote there,
    `got` the beginning of what came instead of the expected output, for a program's first mistake.
    """

    __test__ = False

    outcome: Outcome
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_memory: int = 0
    stderr: str = ""
    got: str = ""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on one program: one result for every declared test, in their order."""

    tests: tuple[TestResult, ...]

    @property
    def passed(self) -> int:
        """Return the number of tests that passed."""
        return sum(test.outcome is Outcome.PASSED for test in self.tests)

    @property
    def total(self) -> int:
        """Return the number of declared tests."""
        return len(self.tests)

    @property
    def scorable(self) -> bool:
        """Return whether every test was verified, none lost to a failure of the verifier itself."""
        return all(test.outcome is not Outcome.INFRA_ERROR for test in self.tests)

    @property
    def reward(self) -> float | None:
        """Return passed / declared tests, or None where the verifier itself failed."""
        return self.passed / self.total if self.scorable else None

    @property
    def outcome(self) -> Outcome:
        """Return infra_error if there is one, else the first outcome that is not a pass."""
        outcomes = [test.outcome for test in self.tests]
        if Outcome.INFRA_ERROR in outcomes:
            return Outcome.INFRA_ERROR
        return next((o for o in outcomes if o is not Outcome.PASSED), Outcome.PASSED)

    @property
    def seconds(self) -> float:
        """Return the CPU seconds of all tests together."""
        return sum(test.cpu_seconds for test in self.tests)


@dataclasses.dataclass(frozen=True, slots=True)  # a run has millions of them
class Score:
    """The verdict on one sample: a line of `scores.jsonl`; `reward` is None if unscorable.

    `program` is a fingerprint of the program's syntax tree, whatever its layout. `columns` are
    further numbers that can stand in for the reward, or choose among samples. A reward that no
    tests gave has the outcome `scored`. `error` says what a reward function failed with.
    """

    problem_id: str
    sample: int
    reward: float | None
    passed: int
    total: int
    outcome: Outcome
    seconds: float
    program: str | None = None
    columns: Mapping[str, float] = dataclasses.field(default_factory=dict)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this score; a None reward stays as null, what is empty not."""
        row = {name: getattr(self, name) for name in self.__slots__}
        for name in ("program", "columns", "error"):
            if not row[name]:
                del row[name]
        return {**row, "outcome": self.outcome.value}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Score:
        """Return the score of a JSON object, fields of other tools left out."""
        mapping("score", row)
        fields = {name: row[name] for name in cls.__slots__ if name in row}
        return typed(fields, cls, where="score")


def _without_none(record: TestCase | Problem | Sample) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: value for name, value in values.items() if value is not None}
