"""Which files the command `score` is given, and of which step or task each is."""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from maxatk.cli.output import say_aside
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.external_rewards import natural
from maxatk.exchange.recognition import LOG_ENDINGS, is_named_as_log
from maxatk.exchange.unfinished import is_unfinished

# What the tools name the log of a task, which they write one file each of.
_OF_A_TASK = (
    re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+\.jsonl"),  # lm-eval
    # inspect: the last part is a random id, whose digits are no step
    re.compile(r"\d{4}-\d\d-\d\dT[\dZ.+-]+_(?P<task>.+)_[A-Za-z0-9]{22}\.(eval|json)"),
)


def is_several(path: Path) -> bool:
    """Say whether a path is a folder, or a pattern, which several files may match."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Return the files of paths, folders and patterns, sorted by the numbers in their names."""
    files: list[Path] = []
    for path in paths:
        if not is_several(path):
            files.append(path)
            continue
        inside = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))
        logs = [file for file in inside if is_named_as_log(file)]
        if not logs:
            endings = ", ".join(LOG_ENDINGS)
            raise MissingFileError(
                f"rewards: no file ending in {endings} at {path}{_inner_folder(path)}"
            )
        files += logs
    return sorted(files, key=lambda file: natural(str(file)))


def _inner_folder(path: Path) -> str:
    """Return a hint at a folder in a folder, which is not looked into, that holds logs."""
    folders = sorted(inner for inner in path.glob("*/") if inner.is_dir())
    for folder in folders:
        if any(is_named_as_log(file) for file in folder.iterdir()):
            return f"; did you mean {str(folder)!r}?"
    return ""


def are_of_tasks(files: Sequence[Path]) -> bool:
    """Say whether all files are named as logs of lm-eval or inspect, which write one a task."""
    return all(_task_of(file) is not None for file in files)


def _task_of(file: Path) -> str | None:
    """Return the task that the name of a log has, None where it has none."""
    matches = (pattern.fullmatch(file.name) for pattern in _OF_A_TASK)
    return next((match["task"] for match in matches if match is not None), None)


def tasks_of(files: Sequence[Path]) -> dict[str, Path]:
    """Return logs by their tasks; raises InvalidValueError where two are of one."""
    tasks: dict[str, Path] = {}
    for file in files:
        task = _task_of(file)
        assert task is not None  # by `are_of_tasks`
        if task in tasks:
            raise InvalidValueError(
                f"rewards: {tasks[task].name} and {file.name} are of one task; name one of them"
            )
        tasks[task] = file
    return tasks


def steps_of(files: Sequence[Path]) -> dict[int, Path]:
    """Return the files by their steps, the last number in the name of each."""
    steps: dict[int, Path] = {}
    for file in files:
        numbers = re.findall(r"\d+", file.stem)
        if numbers:
            steps[int(numbers[-1])] = file
    if len(files) == 1 and not steps:
        raise InvalidValueError(
            f"rewards: the files of a folder or of a pattern are those of steps, whose names end "
            f"in their steps, such as 10.jsonl; {files[0].name} has none: to score it alone name "
            f"the file, --rewards {shlex.quote(str(files[0]))}"
        )
    if len(steps) < len(files):
        raise InvalidValueError(
            "rewards: several files, those of a folder or of a pattern must have names that end in "
            f"their steps, each another, such as 10.jsonl; got {files[0].name} ... {files[-1].name}"
        )
    return steps


def finished_steps(steps: Mapping[int, Path]) -> dict[int, Path]:
    """Return the steps without the last one while a training is still writing its file."""
    last = max(steps)
    if not is_unfinished(steps[last]):
        return dict(steps)
    if len(steps) == 1:
        raise DataError(f"{steps[last]}: is not yet written to its end, and is the only step")
    say_aside(
        f"note: step {last} is left out: {steps[last]} is not yet written to its end; the same "
        "command takes it once it is"
    )
    return {step: file for step, file in steps.items() if step != last}
