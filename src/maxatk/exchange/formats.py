"""The formats of logs that are read: ours, tables, and those of evaluators and trainers."""

from __future__ import annotations

from collections.abc import Mapping

from maxatk.errors import DataError
from maxatk.exchange import log_rows
from maxatk.exchange.evaluator_logs import EVALUATOR_LOGS
from maxatk.exchange.log_rows import LogFormat, LogRow, RawRow
from maxatk.exchange.trainer_logs import TRAINER_LOGS
from maxatk.exchange.wide import several_completions, several_rewards
from maxatk.records import Sample

OURS = "samples"
TABLE = "table"


def _ours(row: RawRow, _: Mapping[str, str]) -> list[LogRow]:
    """Read samples.jsonl of this tool, and the samples that human-eval and EvalPlus take.

    A row may have all completions of its problem.
    """
    if "problem_id" in row:
        problem_id = log_rows.identifier(row["problem_id"], "problem_id")
        if "completion" not in row:
            raise DataError(
                f"sample: missing field 'completion'; got {sorted(row)}; "
                "--map completion=FIELD says which it is"
            )
        problem_samples = several_completions(row, {}, with_rewards=False)
        if problem_samples is not None:
            return problem_samples
        has_number = row.get("sample") is not None
        number = row["sample"] if has_number else 0  # until it is counted
        sample = Sample.from_json({**row, "problem_id": problem_id, "sample": number})
        number = number if has_number else None
        return [LogRow(problem_id, number, sample.completion, whole=sample)]
    if "task_id" not in row:
        raise DataError(
            f"sample: missing field 'problem_id' (or 'task_id' of other tools); got {sorted(row)}; "
            "--map problem_id=FIELD completion=FIELD says which they are"
        )
    present = [name for name in ("solution", "completion") if row.get(name) is not None]
    if not present:
        raise DataError(f"sample: missing field 'completion' or 'solution'; got {sorted(row)}")
    task = log_rows.identifier(row["task_id"], "task_id")
    text = log_rows.field(row, present[0], "text")
    if present[0] == "solution":
        return [LogRow(task, completion=text, program=text)]
    return [LogRow(task, completion=text, continues=True)]


def _table(row: RawRow, mapping: Mapping[str, str]) -> list[LogRow]:
    """Read a plain table; a row of a completion without a reward is one to be verified."""
    problem_samples = several_rewards(row, mapping) or several_completions(row, mapping)
    if problem_samples is not None:
        return problem_samples
    needed = ["problem_id"]
    has_completion = row.get("completion") is not None or "completion" in mapping
    if "reward" in row or not has_completion:
        needed.append("reward")
    for name in needed:
        if name not in row and name not in mapping:
            missing = f"field {name!r}: is missing; got {', '.join(sorted(map(str, row)))}"
            raise DataError(f"{missing}; --map {name}=FIELD says which it is")
    paths = {name: name for name in log_rows.MAPPED if name in row and name not in mapping}
    if mapping.get("turns") == "turn":
        paths.pop("turn", None)  # that column has the number of turns
    paths |= {"problem_id": mapping.get("problem_id", "problem_id")}
    columns = log_rows.numbers(row, without=(*log_rows.MAPPED, *mapping.values()))
    return [log_rows.sample_at(row, paths, columns)]


FORMATS: dict[str, LogFormat] = {
    **EVALUATOR_LOGS,
    **TRAINER_LOGS,
    TABLE: LogFormat(
        "a table of problem_id, sample, reward",
        [{"problem_id", "reward"}, {"problem_id", "completion"}],
        _table,
    ),
    OURS: LogFormat("samples to be verified", [{"problem_id"}, {"task_id"}], _ours),
}
"""Name -> format, as `--format` takes it; the first that a file's first row matches is its format.

So the most particular formats come first, and those that any table may match last.
"""
