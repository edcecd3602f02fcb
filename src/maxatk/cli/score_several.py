"""The command `score` for the files of several steps or tasks, a run of its own each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from maxatk.cli import output
from maxatk.cli.output import Output
from maxatk.cli.results_output import metric_rows
from maxatk.cli.score_files import files_of, finished_steps, steps_of, tasks_of
from maxatk.cli.score_flags import ScoreFlags
from maxatk.cli.score_rewards import scored_rewards
from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import run_mark
from maxatk.evaluation.results import Results
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.tables import TidyRow
from maxatk.training.group_log import GROUPS
from maxatk.writing import OutFolder, json_mark

_Name = TypeVar("_Name", str, int)  # of one of several files: its task or its step

_OF_A_MODEL = ("config.json", "adapter", GROUPS)  # in the folder of one that maxatk trained


def score_tasks(flags: ScoreFlags) -> None:
    """Score the log of every task into a folder of its own, and print them together."""
    tasks = tasks_of(files_of(flags.rewards))
    with OutFolder(flags.out, "score", tuple(map(run_mark, tasks))).alone():
        by_task = _score_each(flags, tasks)
    _print_together(flags, "task", by_task)


def score_steps(flags: ScoreFlags) -> None:
    """Score the file of every step into a folder of its own, and print the curve."""
    steps = finished_steps(steps_of(files_of(flags.rewards)))
    mark = json_mark(TRAIN_RECORD, lambda record: record.keys() == {"log_history"})
    folder = OutFolder(flags.out, "score", (mark,), foreign=_OF_A_MODEL)
    with folder.alone():
        by_step = _score_each(flags, steps)
        _print_curve(flags, by_step)


def _score_each(flags: ScoreFlags, files: Mapping[_Name, Path]) -> dict[_Name, Results]:
    """Score every file into a folder of its own, and return their results by the same names."""
    results = {}
    for name, file in files.items():
        try:
            results[name] = scored_rewards(flags, file, flags.out / str(name))
        except InvalidValueError as error:  # which names a flag, and not the file it does not suit
            raise InvalidValueError(f"{file}: {error}") from error
    return results


def _print_curve(flags: ScoreFlags, by_step: Mapping[int, Results]) -> None:
    log_history = []
    lacking = []
    for step, results in by_step.items():
        best = {f"max@{k}": mean.mean for k, mean in results.metrics["max@k"].items()}
        log_history.append({"step": step, **best})
        if results.counts.lacking:
            lacking.append(f"step {step}: {results.counts.lacking}")
    # So that `report --train` and `diagnose` read it as the log of a training.
    write_json(flags.out / TRAIN_RECORD, {"log_history": log_history})
    _print_together(flags, "step", by_step, text="\n".join(lacking))


def _print_together(
    flags: ScoreFlags, kind: str, results_of: Mapping[Any, Results], *, text: str = ""
) -> None:
    """Print the results of several steps or tasks, a line each, with the number of problems."""
    rows: list[TidyRow] = []
    groups = {}
    for name, results in results_of.items():
        rows += metric_rows(results, (), {kind: name})
        groups[f"{name} ({len(results.ids)})"] = results
    table = groups_table(groups, heading=f"{kind} (problems)", ks=flags.k or KS)
    note = f"95% intervals over the problems of a {kind}"
    output.emit({f"{kind}s": Output(rows, table, note)}, flags.output_format, text=text)
