"""Files with a row a problem: a column, or an item of a list, for each of its samples."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxatk.errors import DataError
from maxatk.exchange import log_rows
from maxatk.exchange.log_rows import LogRow, RawRow
from maxatk.table_files import value_at

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})", re.DOTALL)


def several_rewards(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow] | None:
    """Return the samples of a row that has all rewards of a problem, None for another row.

    It is `{"problem_id": "p", "reward": [0, 1]}`, a line `id, r0, r1, r2` of a table whose
    `--map problem_id=id`, or `{"p": [0, 1], "q": [1, 1]}` of several problems. In a list null is a
    sample without a reward, as NaN is; an empty cell of a table is no sample. Raises DataError for
    what is no reward, and for a problem without samples.
    """
    if "problem_id" not in row and "problem_id" not in mapping:
        if row and all(_is_list_of_numbers(value) for value in row.values()):
            return [
                sample
                for name, values in row.items()
                for sample in _samples(str(name), enumerate(values), row)
            ]
        return None
    id_path = mapping.get("problem_id", "problem_id")
    problem_id = log_rows.identifier(log_rows.field(row, id_path), id_path)
    if "reward" in row or "reward" in mapping:
        values = value_at(row, mapping.get("reward", "reward"))
        if not _is_list_of_numbers(values):
            return None
        return _with_completions(_samples(problem_id, enumerate(values), row), row)
    if row.get("completion") is not None or "completion" in mapping:
        return None
    names = _numbered_names(row, without=id_path)
    if names is None:
        return None
    cells = [(number, row[name]) for number, name in enumerate(names)]
    return _samples(problem_id, [cell for cell in cells if cell[1] not in (None, "")], row)


def _with_completions(samples: list[LogRow], row: RawRow) -> list[LogRow]:
    """Return the samples of a row with its list of completions, if it has one for them."""
    value: Any = row.get("completion")
    if not log_rows.is_list_of(str, value):
        return samples
    texts = log_rows.one_each(value, len(samples), "completion")
    return [
        dataclasses.replace(sample, completion=text)
        for sample, text in zip(samples, texts, strict=True)
    ]


def several_completions(
    row: RawRow, mapping: Mapping[str, str], *, with_rewards: bool = True
) -> list[LogRow] | None:
    """Return the samples of a row that has all completions of a problem, None for another row.

    It is `{"problem_id": "p", "completion": ["a", "b"]}`, or has its list where `--map` says.
    Numbers of samples and, `with_rewards`, rewards are lists too; without numbers the samples are
    numbered in the order of the file. Raises DataError for a problem without samples, and for one
    value, or another number of them, in place of a list.
    """
    texts = value_at(row, mapping.get("completion", "completion"))
    if not log_rows.is_list_of(str, texts):
        return None
    id_path = mapping.get("problem_id", "problem_id")
    problem_id = log_rows.identifier(log_rows.field(row, id_path), id_path)
    if not texts:
        raise _without_samples(problem_id)
    numbers = _one_each("sample", row, mapping, len(texts))
    rewards: Sequence[float | None] = [None] * len(texts)
    if with_rewards:
        rewards = _one_each("reward", row, mapping, len(texts))
    asked = log_rows.field(row, mapping.get("prompt", "prompt"), absent=None)
    prompt = log_rows.conversation(asked)
    answer = log_rows.field(row, mapping.get("answer", "answer"), absent=None)
    return [
        LogRow(
            problem_id,
            number,
            completion=text,
            reward=reward,
            prompt=prompt,
            answer=None if answer is None else str(answer),
        )
        for number, text, reward in zip(numbers, texts, rewards, strict=True)
    ]


def _one_each(name: str, row: RawRow, mapping: Mapping[str, str], count: int) -> Sequence[Any]:
    """Return a field for each completion of a row, None for each where the row has none."""
    path = mapping.get(name, name)
    values = log_rows.field(row, path, "a list", absent=[None] * count)
    return [
        log_rows.typed(name, value, path, row) for value in log_rows.one_each(values, count, path)
    ]


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        item is None or isinstance(item, (bool, int, float)) for item in value
    )


def _samples(problem_id: str, values: Iterable[tuple[int, Any]], row: RawRow) -> list[LogRow]:
    """Return the samples of a problem, of their numbers and the rewards that stand in a row.

    Raises DataError where there are none: the mean would be that of the other problems.
    """
    samples = [
        LogRow(
            problem_id,
            number,
            reward=log_rows.typed("reward", value, f"reward of sample {number}", row),
        )
        for number, value in values
    ]
    if not samples:
        raise _without_samples(problem_id)
    return samples


def _without_samples(problem_id: str) -> DataError:
    return DataError(f"problem {problem_id!r:.80} has no samples; leave its row out")


def _numbered_names(row: RawRow, *, without: str) -> list[str] | None:
    """Return the columns r0, r1, ... of a row in order, from 0 or 1; None unless one set is all."""
    places_of: dict[str, dict[int, str]] = defaultdict(dict)
    for name in row:
        match = _NUMBERED.fullmatch(str(name)) if name != without else None
        if match is not None:
            places_of[match[1]][int(match[2])] = name
    sets = [places for places in places_of.values() if len(places) > 1]
    if len(sets) != 1:
        return None
    numbers = sorted(sets[0])
    if numbers[0] > 1 or numbers[-1] - numbers[0] != len(numbers) - 1:
        return None
    return [sets[0][number] for number in numbers]
