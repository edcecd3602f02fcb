"""What a log of another tool holds, whichever tool wrote it: one row a sample."""

from __future__ import annotations

import dataclasses
import decimal
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from maxatk.check import LARGEST
from maxatk.conversations import completion_text, content_text, transcript
from maxatk.errors import DataError, counted
from maxatk.records import Sample
from maxatk.table_files import MISSING, TextRow, value_at

RawRow: TypeAlias = Mapping[str, Any]

PlacedRow: TypeAlias = tuple[str, Any]
"""Where a row stands, for messages, and the object there, or the line of JSON that holds it."""

ON_ERROR = "on_error"
"""The name by which `--map` says what a sample is worth that failed."""

_ASSISTANT = "assistant"
_INDEX_END = 2**63  # parquet and NumPy have no larger integers
_WITH_COMMA = re.compile(r"[+-]?[\d.]+,\d+")  # 0,5 as spreadsheets of many countries write it
_INDEX = re.compile(r"|__index_level_\d+__|Unnamed: \d+")  # what it is called in files of pandas
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "an object": lambda value: isinstance(value, Mapping),
    "a list": lambda value: isinstance(value, list),
    "a list of texts": lambda value: is_list_of(str, value),
    "a list of objects": lambda value: is_list_of(Mapping, value),
}


@dataclasses.dataclass(slots=True)  # a log has up to millions of them
class LogRow:
    """One row of a log, a sample or a part of one; what is None is not in it.

    Rows of a problem with the same `rollout` are one sample: see `rollouts`. Samples without a
    number are numbered in the order of the file. `columns` are further numbers, `program` is the
    whole program where the log holds it apart from the completion, which with `continues` goes on
    from the problem's prompt. With `named_by_prompt` the log has no id of the problem but its
    prompt. `turn` is the place of the row in its rollout, `turns` how many turns the sample took,
    and `reached` the rewards after some of them (`turns.reached_by`). `transcript` is the whole
    conversation, whose last message is the completion. `whole` is the sample where the log is ours.
    """

    problem_id: str
    sample: int | None = None
    completion: str | None = None
    reward: float | None = None
    columns: Mapping[str, float] = dataclasses.field(default_factory=dict)
    program: str | None = None
    prompt: str | None = None
    answer: str | None = None
    continues: bool = False
    named_by_prompt: bool = False
    rollout: str | None = None
    turn: int | None = None
    turns: int | None = None
    reached: Mapping[int, float] = dataclasses.field(default_factory=dict)
    transcript: str | None = None
    whole: Sample | None = None


@dataclasses.dataclass(frozen=True)
class LogFormat:
    """How the files of one tool, whose first row has all `keys` of one of the sets, are read.

    `convert` makes the samples of a row, given `--map`, which has to hold `choice` where the field
    of that name differs from row to row (`names_chosen`), and may have a word that `rules` allow
    for a field. `rows` reads the file where that is not one row a line. `rollout_reward` is the
    tool's own rule for rollouts of several rows, whose ids may be unique in a file and not only for
    a problem (`unique_rollouts`).
    """

    title: str
    keys: Sequence[set[str]]
    convert: Callable[[RawRow, Mapping[str, str]], Sequence[LogRow]]
    choice: str | None = None
    rules: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    rows: Callable[[Path], Iterator[PlacedRow]] | None = None
    rollout_reward: str | None = None
    unique_rollouts: bool = False

    def matches(self, row: RawRow) -> bool:
        """Say whether a row has the keys of this format."""
        return any(keys <= row.keys() for keys in self.keys)


def names_chosen(mapping: Mapping[str, str], field_name: str) -> Sequence[str]:
    """Return the names, divided by commas, that `--map` gives for a field; none without it.

    Several names are for several files, of which each has one of them.
    """
    names = mapping.get(field_name)
    return [] if names is None else names.split(",")


def other_names(field_name: str, chosen: Sequence[str], names: Iterable[str]) -> str:
    """Say which names `--map` may give for a field, where a file has none of those `chosen`."""
    allowed = sorted(names)
    return (
        f"allowed: {', '.join(allowed)}; for files with different ones give one of each, as in "
        f"--map {field_name}={chosen[0]},{allowed[0]}"
    )


def sample_at(
    row: RawRow, paths: Mapping[str, str], columns: Mapping[str, float] | None = None
) -> LogRow:
    """Return the sample of a row whose fields stand at these paths.

    Without a `problem_id` the prompt is its own id. `columns` are by default all further numbers
    of the row. Raises DataError where an id, a completion or a reward is missing, and as `typed`.
    """
    optional = ("sample", "prompt", "answer", "rollout", "turn", "turns")
    fields: dict[str, Any] = {}
    for name, path in paths.items():
        value = field(row, path, absent=None if name in optional else MISSING)
        fields[name] = conversation(value) if name == "prompt" else typed(name, value, path, row)
        if name == "completion" and is_list_of(Mapping, value):
            fields.setdefault("turns", turns_of(value))
            fields["transcript"] = transcript(value)
    if "problem_id" not in paths:
        if not fields["prompt"]:
            prompt = field(row, paths["prompt"])
            raise DataError(
                f"field {paths['prompt']!r}: must be text or messages, got {prompt!r:.60}"
            )
        fields["problem_id"] = fields["prompt"]
        fields["named_by_prompt"] = True
    if columns is None:
        columns = numbers(row, without=list(paths.values()))
    return LogRow(**fields, columns=columns)


def typed(name: str, value: Any, path: str, row: RawRow) -> Any:
    """Return a value of a row as the field `name` of a sample; DataError for another kind."""
    if value is None and name != "problem_id":
        return None
    if name == "reward":
        return reward(value, path, text_is_number=isinstance(row, TextRow))
    return _READERS[name](value, path)


def field(row: RawRow, path: str, kind: str = "", *, absent: Any = MISSING) -> Any:
    """Return the value at a path such as `a.b.0`, of a kind in `_KINDS` if one is given.

    A field whose own name is the path, dots included, comes first. `absent`, if given, stands for
    what is missing or null. Raises DataError naming the field, what it is and what was wanted.
    """
    value = value_at(row, path)
    if value is MISSING and absent is MISSING:
        names = ", ".join(sorted(map(str, row)))
        raise DataError(f"field {path!r}: is missing; got {names}")
    if value is MISSING or (value is None and absent is not MISSING):
        return absent
    if kind and not _KINDS[kind](value):
        raise DataError(f"field {path!r}: must be {kind}, got {value!r:.60}")
    return value


def is_list_of(kind: type, value: Any) -> bool:
    """Say whether a value is a list of nothing but this kind."""
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def identifier(value: Any, name: str) -> str:
    """Return the id of a problem, a number as its digits; raises DataError for anything else."""
    is_blank = isinstance(value, str) and not value.strip()
    if isinstance(value, bool) or not isinstance(value, (str, int)) or is_blank:
        raise DataError(f"field {name!r}: must be text or an integer, got {value!r:.60}")
    return str(value)


def index(value: Any, name: str) -> int:
    """Return the index of a sample, from 0; raises DataError for anything else."""
    number = _as_number(value)
    if number is None or not number.is_integer() or number < 0:
        raise DataError(f"field {name!r}: must be an integer from 0, got {value!r:.60}")
    if number >= _INDEX_END:
        raise DataError(f"field {name!r}: must be an integer below 2**63, got {value!r:.60}")
    return int(number)


class SampleNumbers:
    """The numbers of the samples of each problem, which are counted where samples have none."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._taken: set[tuple[str, int]] = set()

    def take(self, sample: LogRow) -> bool:
        """Number a sample that has no number; return whether no other of its problem has it."""
        if sample.sample is None:
            sample.sample = self._counts[sample.problem_id]
        self._counts[sample.problem_id] += 1
        number = (sample.problem_id, sample.sample)
        is_free = number not in self._taken
        self._taken.add(number)
        return is_free


def reward(value: Any, name: str, *, text_is_number: bool = False) -> float | None:
    """Return a reward, None where it is empty or NaN; raises DataError for anything else.

    The text of a number is one in a table without types, such as CSV; elsewhere it may be an
    answer.
    """
    if value is None or value == "":
        return None
    is_text = isinstance(value, str) and not text_is_number
    number = None if is_text else _as_number(value)
    if number is None or abs(number) > LARGEST:
        allowed = f"a finite number of at most {LARGEST:g} in size, or empty"
        kind = "the text " if is_text else ""
        hint = ""
        if isinstance(value, str) and not is_text and _WITH_COMMA.fullmatch(value.strip()):
            hint = "; write it without a comma, and with a point before its decimals"
        raise DataError(f"field {name!r}: must be {allowed}, got {kind}{value!r:.60}{hint}")
    return None if math.isnan(number) else number


def refuse_other_cell(row: RawRow, column: str) -> None:
    """Raise DataError where a column that stands in for the reward has what no reward can be.

    Such a cell would be one without a number, and its sample one without a reward.
    """
    if column in row:
        reward(row[column], column, text_is_number=isinstance(row, TextRow))


def numbers(row: RawRow, *, without: Sequence[str] = ()) -> dict[str, float]:
    """Return the finite numbers of a row by field, those of the fields in `without` left out.

    So is the index of a table, which nobody chose as a score: it has no name, or one by pandas.
    The text of a number is one where there are no types; elsewhere it may be an answer.
    """
    has_types = not isinstance(row, TextRow)
    finite = {}
    for name, value in row.items():
        if name in without or _INDEX.fullmatch(str(name)):
            continue
        if has_types and isinstance(value, str):
            continue
        number = _as_number(value)
        if number is not None and math.isfinite(number):
            finite[str(name)] = number
    return finite


def numbers_at(row: RawRow, path: str) -> dict[str, float]:
    """Return the finite numbers of the object that a path leads to; none where it is missing."""
    return numbers(field(row, path, "an object", absent={}))


def one_each(values: Sequence[Any], count: int, path: str) -> Sequence[Any]:
    """Return the values of a field for the samples of a row; raises DataError for another count."""
    if len(values) != count:
        raise DataError(
            f"field {path!r}: {counted(len(values), 'value')} for the "
            f"{counted(count, 'sample')} of the row"
        )
    return values


def _as_number(value: Any) -> float | None:
    """Return a number, a truth value (1 and 0) or the text of one as a float; None for the rest.

    A column of parquet that a database has written may hold decimals.
    """
    if isinstance(value, str):
        value = {"true": 1.0, "false": 0.0}.get(value.strip().lower(), value)
    if not isinstance(value, (str, bool, int, float, decimal.Decimal)):
        return None
    if isinstance(value, str) and "_" in value:  # of 1_000 Python reads 1000, and no table means it
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def conversation(value: Any) -> str | None:
    """Return a text as it is, of a list of messages their texts in lines, None for the rest."""
    if isinstance(value, str):
        return value
    if not is_list_of(Mapping, value):
        return None
    contents = [message.get("content") for message in value]
    # A message of a model that also sees images is a list of parts.
    return "\n".join(content_text(part) for part in contents if isinstance(part, (str, list)))


def turns_of(completion: Sequence[RawRow]) -> int:
    """Return the turns that a policy has taken in a conversation."""
    roles = [message.get("role", _ASSISTANT) for message in completion]
    return roles.count(_ASSISTANT)


def _completion(value: Any, name: str) -> str:
    if is_list_of(Mapping, value):
        return completion_text(value)
    return _text(value, name)


def _text(value: Any, name: str) -> str:
    text = conversation(value)
    if text is None:
        raise DataError(f"field {name!r}: must be text, got {value!r:.60}")
    return text


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "problem_id": identifier,
    "sample": index,
    "completion": _completion,
    "prompt": _text,
    "answer": lambda value, _: str(value),
    "rollout": identifier,
    "turn": index,
    "turns": index,
}
"""Field of a sample that any row has in the same form -> what reads it."""

MAPPED = (*_READERS, "reward")
"""Fields of a sample that a path may be given for."""
