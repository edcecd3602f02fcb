"""The records that cross package boundaries: problems, tests, samples, verdicts and scores.

Every record is a frozen dataclass with a JSON form (`to_json` / `from_json`) that is exactly
one line of the file of the same name: `problems.jsonl`, `samples.jsonl`, `scores.jsonl`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from maxatk.errors import DataError, InvalidValueError, suggestion


class Outcome(str, enum.Enum):
    """What happened to one test of one program."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    NOT_RUN = "not_run"
    INFRA_ERROR = "infra_error"
    SCORED = "scored"  # a reward that no tests gave: a function's, or one from outside

    def __str__(self) -> str:
        return self.value


_OUTCOMES: dict[str, Outcome] = {outcome.value: outcome for outcome in Outcome}


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
        given = frozenset(f for f in _TEST_FIELDS if getattr(self, f) is not None)
        if given not in _TEST_KINDS:
            raise InvalidValueError(
                f"TestCase: got the fields {sorted(given)}; allowed: input and output, "
                "call and output, or check alone"
            )
        for name in given:
            if not isinstance(getattr(self, name), str):
                raise InvalidValueError(
                    f"TestCase.{name}: must be a string, got {getattr(self, name)!r}"
                )

    def to_json(self) -> dict[str, str]:
        """Return the fields that are set, as in `problems.jsonl`."""
        return {f: getattr(self, f) for f in _TEST_FIELDS if getattr(self, f) is not None}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> TestCase:
        """Return the test of a JSON object; null fields count as absent, unknown ones raise."""
        _refuse_unknown("test", row, _TEST_FIELDS)
        return cls(**{name: value for name, value in row.items() if value is not None})


_TEST_FIELDS = ("input", "output", "call", "check")
_TEST_KINDS = (frozenset({"input", "output"}), frozenset({"call", "output"}), frozenset({"check"}))


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem with its tests, its answer, or neither: a line of `problems.jsonl`.

    `tests` decide the reward of a program; `visible_tests` are those a program may be chosen by,
    and count towards no reward. `answer` is the expected answer of a problem that asks for no
    program. `meta` holds fields of one's own, which reward functions receive as columns. A reward
    function of one's own needs neither tests nor an answer.

    `time_limit_s` (CPU seconds a test) and `memory_limit_mb` (MiB) are None where the verifier's
    own defaults apply; `compare` names a comparison rule of the verifier. `checker` is the source
    of a program that decides which outputs are right, for the rule of that name.
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

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidValueError("Problem.id: must not be empty")
        for name in ("id", "prompt"):
            if not isinstance(getattr(self, name), str):
                raise InvalidValueError(
                    f"Problem.{name}: must be a string, got {getattr(self, name)!r}"
                )
        if not isinstance(self.answer, (str, type(None))):
            raise InvalidValueError(
                f"Problem {self.id!r}: answer must be text or a number, got {self.answer!r:.60}"
            )
        if not isinstance(self.meta, Mapping):
            raise InvalidValueError(
                f"Problem {self.id!r}: meta must be an object, got {self.meta!r:.60}"
            )
        if (self.compare == "checker") != (self.checker is not None):
            raise InvalidValueError(
                f"Problem {self.id!r}: compare='checker' and a checker's source go together, got "
                f"compare={self.compare!r}, checker={self.checker!r:.50}"
            )
        for name in ("time_limit_s", "memory_limit_mb"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (int, float)):
                raise InvalidValueError(
                    f"Problem {self.id!r}: {name} must be a number, got {value!r}"
                )
            if value is not None and not value > 0:
                raise InvalidValueError(
                    f"Problem {self.id!r}: {name} must be positive, got {value!r}"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this problem, without the fields that are None or empty."""
        row = _without_none(self)
        for name in ("tests", "visible_tests"):
            row[name] = [test.to_json() for test in getattr(self, name)]
        lists = ("tests", "visible_tests", "meta")
        return {name: value for name, value in row.items() if value or name not in lists}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Problem:
        """Return the problem of a JSON object; missing or unknown fields raise DataError."""
        _refuse_unknown("problem", row, [f.name for f in dataclasses.fields(cls)])
        _require("problem", row, ("id", "prompt"))
        given = {
            name: value for name, value in row.items() if value is not None or name == "prompt"
        }
        for name in ("tests", "visible_tests"):
            tests = given.get(name, [])
            if not isinstance(tests, list) or not all(isinstance(t, Mapping) for t in tests):
                raise DataError(f"problem: {name}: must be a list of objects")
            given[name] = tuple(TestCase.from_json(test) for test in tests)
        answer = given.get("answer")
        if isinstance(answer, (int, float)) and not isinstance(answer, bool):
            given["answer"] = str(answer)
        return cls(**given)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One completion of one problem: a line of `samples.jsonl`.

    `tokens` counts the completion's tokens; `logprob` is the sum of their log-probabilities in
    nats; `entropy` is the mean entropy of the token distributions in nats, at the sampling
    temperature. Each is None where the backend does not give it.
    """

    problem_id: str
    sample: int
    completion: str
    tokens: int | None = None
    finish_reason: str | None = None
    logprob: float | None = None
    entropy: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this sample, without the fields that are None."""
        return _without_none(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Sample:
        """Return the sample of a JSON object; fields of other tools are ignored."""
        get = row.get
        try:  # written out: a loop over the fields takes as long as parsing the line
            return cls(
                row["problem_id"],
                row["sample"],
                row["completion"],
                get("tokens"),
                get("finish_reason"),
                get("logprob"),
                get("entropy"),
            )
        except KeyError:
            _require("sample", row, ("problem_id", "sample", "completion"))
            raise


@dataclasses.dataclass(frozen=True)
class TestResult:
    """What one test did: its outcome and what it cost.

    `cpu_seconds` and `wall_seconds` are those of the test process, `peak_memory` its largest
    resident set in bytes, `stderr` a bounded excerpt of what it wrote there. `got` is the beginning
    of what came instead of the expected output, for the first wrong answer of a program.
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


@dataclasses.dataclass(frozen=True)
class Score:
    """The verdict on one sample: a line of `scores.jsonl`; `reward` is None if unscorable.

    `program` is a fingerprint of the program's syntax tree, equal for programs that differ in
    layout alone; None where it was not taken. `columns` are further numbers about the sample, such
    as a second reward: they can stand in for the reward, or choose among the samples. A reward
    that no tests gave has the outcome `scored` and counts no tests.
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

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this score; a None reward stays as null, a None program not."""
        row = {name: getattr(self, name) for name in _SCORE_FIELDS}
        program = {} if self.program is None else {"program": self.program}
        columns = {"columns": dict(self.columns)} if self.columns else {}
        return {**row, "outcome": self.outcome.value, **program, **columns}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Score:
        """Return the score of a JSON object; missing fields raise DataError."""
        try:
            return cls(
                row["problem_id"],
                row["sample"],
                _number_or_none(row["reward"]),
                row["passed"],
                row["total"],
                _OUTCOMES.get(row["outcome"]) or Outcome(row["outcome"]),
                row["seconds"],
                row.get("program"),
                row.get("columns", {}),
            )
        except KeyError:
            _require("score", row, _SCORE_FIELDS)
            raise

    @classmethod
    def from_verdict(
        cls, verdict: Verdict, *, problem_id: str, sample: int, program: str | None = None
    ) -> Score:
        """Return the score line of one verdict."""
        return cls(
            problem_id=problem_id,
            sample=sample,
            reward=verdict.reward,
            passed=verdict.passed,
            total=verdict.total,
            outcome=verdict.outcome,
            seconds=round(verdict.seconds, 6),
            program=program,
        )


def _number_or_none(reward: Any) -> float | None:
    if reward is not None and type(reward) not in (int, float):
        raise DataError(f"score: reward must be a number or null, got {reward!r:.60}")
    number: float | None = reward
    return number


_SCORE_FIELDS = ("problem_id", "sample", "reward", "passed", "total", "outcome", "seconds")


def _without_none(record: Any) -> dict[str, Any]:
    fields = dataclasses.fields(record)
    return {f.name: getattr(record, f.name) for f in fields if getattr(record, f.name) is not None}


def _require(kind: str, row: Mapping[str, Any], names: Iterable[str]) -> None:
    missing = [name for name in names if name not in row]
    if missing:
        raise DataError(f"{kind}: missing field {missing[0]!r}; got {sorted(row)}")


def _refuse_unknown(kind: str, row: Mapping[str, Any], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    for name in row:
        if name not in allowed:
            raise DataError(
                f"{kind}: unknown field {name!r}; allowed: {', '.join(allowed)}"
                f"{suggestion(name, allowed)}"
            )
