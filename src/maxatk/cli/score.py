"""The command `score`: verify a file of samples, or take the rewards of files as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from maxatk.cli import output
from maxatk.cli.score_files import are_of_tasks, files_of, is_several
from maxatk.cli.score_flags import ScoreFlags
from maxatk.cli.score_rewards import score_budgets, score_one_file
from maxatk.cli.score_samples import score_samples
from maxatk.cli.score_several import score_steps, score_tasks
from maxatk.errors import InvalidValueError
from maxatk.evaluation.folder import MANIFEST

_FORMS_OF_TABLES = ("text", "md", "csv", "latex", "json")  # which other commands call --format


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(ScoreFlags):
    """Verify the programs of a file, or take the rewards in it, and compute max@k and pass@k.

    --samples reads samples.jsonl of this tool and the files of other tools. --rewards reads a table
    with the columns problem_id, sample and reward, or the log of another tool; several files, a
    folder or a pattern are the steps of a training, whose max@k is printed step by step. All bad
    lines are reported before any work. If interrupted, rerun the same command: it resumes.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Example: maxatk score --rewards scores.csv --map reward=judge.score --k 1 10 --out runs/judged
    """

    def run(self, _: Sequence[str]) -> None:
        """Do what was asked."""
        output.refuse_two_outputs(self.output_format, self.progress)
        if self.format in _FORMS_OF_TABLES:
            raise InvalidValueError(
                "--format: names the tool that has written a log, and a table needs none; "
                f"--output-format {self.format} prints the results so"
            )
        if (self.samples is None) == (not self.rewards):
            raise InvalidValueError("score: give either --samples or --rewards")
        kind = _kind_of(self)
        if kind != "samples":
            _refuse_other_kind(self.out, holds_several=kind in ("steps", "tasks"))
        _ACTIONS[kind](self)


_Kind: TypeAlias = Literal["samples", "one file", "budgets", "steps", "tasks"]


def _kind_of(flags: ScoreFlags) -> _Kind:
    """Return what is asked for, by what was given and not by how many files there are just now.

    A folder or a pattern holds the files of steps, or of tasks, though it has one so far.
    """
    kind: _Kind = "steps"
    if not flags.rewards:
        kind = "samples"
    elif len(flags.rewards) == 1 and not is_several(flags.rewards[0]):
        kind = "one file"
    elif are_of_tasks(files_of(flags.rewards)):
        kind = "tasks"
    if flags.by is not None and (flags.budget is not None or kind in ("steps", "tasks")):
        raise InvalidValueError("score: --by is for one file, without --budget")
    if flags.budget is None:
        return kind
    if kind != "one file" or flags.column is not None:
        raise InvalidValueError("score: --budget is for one file of --rewards, without --column")
    return "budgets"


def _refuse_other_kind(out: Path, *, holds_several: bool) -> None:
    """Raise InvalidValueError where one run is to be where several are, or the other way round."""
    holds_one = (out / MANIFEST).is_file()
    if holds_several and holds_one:
        raise InvalidValueError(
            f"out: {str(out)!r} holds one run, and several files, a folder or a pattern are a run "
            "each below it; name another folder"
        )
    if not holds_several and not holds_one and any(out.glob(f"*/{MANIFEST}")):
        raise InvalidValueError(
            f"out: {str(out)!r} holds a run for each of several files, and one file is a run by "
            "itself; name another folder, or give the folder or all the files"
        )


_ACTIONS: Mapping[_Kind, Callable[[ScoreFlags], None]] = {
    "samples": score_samples,
    "one file": score_one_file,
    "budgets": score_budgets,
    "steps": score_steps,
    "tasks": score_tasks,
}
"""Kind of what is asked for -> what does it."""
