"""LiveCodeBench (Jain et al. 2024), code generation: stdin/stdout and function-call problems.

Private tests are a list of {"input", "output", "testtype"} in JSON, or that in base64, zlib and
pickle. Unpickling a downloaded file can run any code, or take for ever: the one string of a pickle
is read out of its instructions, and its size is bounded.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import pickletools
import re
from typing import Any

from maxatk.bounded import BrokenJSONError, inflated, json_value
from maxatk.check import one_of
from maxatk.errors import InvalidValueError
from maxatk.problems.benchmarks import base, columns
from maxatk.records import Problem, TestCase

_RELEASES = tuple(f"{prefix}{n}" for prefix in ("release_v", "v") for n in range(1, 7))
_TYPING = ("Any", "Callable", "Deque", "Dict", "Iterator", "List", "Optional", "Set", "Tuple")
MAX_BYTES = 1 << 28
"""Largest decompressed size of one row's private tests, in bytes."""

# What the pickle of one string consists of, in protocol 0 to 5, but for the string itself.
_AROUND = ("PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP")
_STRINGS = ("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")


@dataclasses.dataclass(frozen=True)
class Options(base.RowOptions):
    """`release` "release_v6" is everything up to version 6, "v6" what version 6 added.

    `start_date` and `end_date` (YYYY-MM-DD, both inclusive) bound the date of the contest.
    """

    release: str = "release_v6"
    start_date: str | None = None
    end_date: str | None = None

    def __post_init__(self) -> None:
        one_of("release", self.release, _RELEASES)
        for name in ("start_date", "end_date"):
            try:
                _date(getattr(self, name) or "2000-01-01")
            except ValueError as error:
                raise InvalidValueError(f"{name}: must be YYYY-MM-DD ({error})") from error


def convert(row: base.Row, options: Options | None = None) -> base.Converted:
    """Return the problem of a row; the rows carry no solutions."""
    options = options or Options()
    row_id = f"livecodebench/{columns.identity(row['question_id'], 'question_id')}"
    date = _date(row["contest_date"])
    if options.start_date and date < _date(options.start_date):
        return base.LeftOut(row_id, f"its contest was before {options.start_date}")
    if options.end_date and date > _date(options.end_date):
        return base.LeftOut(row_id, f"its contest was after {options.end_date}")
    return solved(row_id, row, options)


def solved(
    row_id: str,
    row: base.Row,
    options: base.RowOptions,
    *,
    partial: str = "",
    solution: str | None = None,
) -> base.Converted:
    """Return the problem of a row; `partial` is the part of a program that is to be completed."""
    tests = _test_cases(row)
    if isinstance(tests, str):
        return base.LeftOut(row_id, tests)
    starter = partial or _with_imports(columns.text_or_nothing(row, "starter_code")) or None
    kind: base.Kind = "completion" if partial else "function" if starter else "stdin"
    if kind != "stdin" and options.language != "python":
        return base.LeftOut(row_id, "its tests call a function of Python")
    problem = Problem(
        row_id,
        base.render(
            kind,
            row["question_content"],
            starter=starter,
            style=options.prompt_style,
            language=options.language,
        ),
        tests,
        starter_code=starter,
        compare="lcb",
        source=row_id.partition("/")[0],
        language=options.asked_for,
    )
    return base.SolvedProblem(problem, solution)


def _test_cases(row: base.Row) -> base.Tests | str:
    """Return the public and private tests of a row, or the reason why there are none to use."""
    metadata = json_value(row["metadata"] or "{}")
    cases = [*decode_tests(row["public_test_cases"]), *decode_tests(row["private_test_cases"])]
    kinds = {case["testtype"] for case in cases}
    if not cases:
        return "has no tests"
    if kinds == {"stdin"}:
        return base.stdin_tests((case["input"], case["output"]) for case in cases)
    if kinds != {"functional"}:
        return f"its tests are of the kinds {sorted(kinds)}"
    name = metadata.get("func_name")
    if not isinstance(name, str) or not name.isidentifier():
        return "its metadata names no function to call"
    return tuple(_call(case, name) for case in cases)


def _call(case: base.Row, name: str) -> TestCase:
    """Return the call of a method of Solution for one JSON value a line."""
    *arguments, output = (
        base.python_literal(base.read_json(text))
        for text in (*case["input"].split("\n"), case["output"])
    )
    return TestCase(call=f"Solution().{name}({', '.join(arguments)})", output=output)


def _with_imports(starter: str) -> str:
    """Return starter code with the import of the `typing` names it uses, which it leaves out."""
    used = [name for name in _TYPING if re.search(rf"\b{name}\b", starter)]
    if not used or "import" in starter:
        return starter
    return f"from typing import {', '.join(used)}\n\n{starter}"


def _date(value: Any) -> datetime.date:
    # Readers of JSON may have made a time stamp of the column's text.
    return datetime.date.fromisoformat(str(value)[:10])


def _files(_split: str, options: Options) -> list[str]:
    number = int(options.release[-1])
    first = 1 if options.release.startswith("release_") else number
    return [f"test{n if n > 1 else ''}.jsonl" for n in range(first, number + 1)]


def decode_tests(text: str, *, max_bytes: int = MAX_BYTES) -> list[dict[str, Any]]:
    """Return the tests of a `public_test_cases` or `private_test_cases` column.

    Raises ValueError saying which layer is corrupt, or that `max_bytes` are not enough.
    """
    try:
        tests = json_value(text)
    except BrokenJSONError:
        tests = _decode_packed(text, max_bytes)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise ValueError("corrupt tests: must be a JSON list of objects")
    return tests


def _decode_packed(text: str, max_bytes: int) -> Any:
    layer = "neither JSON nor base64"
    try:
        packed = base64.b64decode(text.encode(), validate=True)
        layer = "not zlib data"
        plain = inflated(packed, most=max_bytes)
        layer = "not a pickled text"
        inner = _unpickled_text(plain)
        layer = "not JSON inside the pickle"
        return json_value(inner)
    except (ValueError, MemoryError) as error:
        raise ValueError(f"corrupt tests: {layer} ({error})") from error


def _unpickled_text(plain: bytes) -> str:
    """Return the one text of a pickle without running it; raises ValueError for another pickle."""
    texts: list[str] = []
    for instruction, argument, _ in pickletools.genops(plain):
        if instruction.name in _STRINGS and not texts:
            texts.append(str(argument))
        elif instruction.name not in _AROUND:
            raise ValueError(f"the pickle uses {instruction.name}; only one text is allowed")
    return "".join(texts)


BENCHMARK = base.Benchmark(
    hub="livecodebench/code_generation_lite",
    revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
    splits=("test",),
    licence="CC (version not stated)",
    size="4.5 GB, 1,055 rows in release_v6",
    convert=convert,
    options=Options,
    languages=base.ANY_LANGUAGE,
    data_files=_files,
)
