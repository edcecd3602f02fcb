"""The command `problems`: list the benchmarks, show a problem, prepare and check problems files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maxatk.cli import problems_prepare
from maxatk.cli.flags import MapFlag
from maxatk.cli.output import Output, OutputFormat, emit, refuse_two_outputs, say_aside, shown
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import DataError, InvalidValueError, counted
from maxatk.evaluation.folder import run_files
from maxatk.evaluation.load import recorded_problems
from maxatk.evaluation.problem_selection import select_problems
from maxatk.exchange import parse_mapping
from maxatk.jsonl import write_jsonl
from maxatk.problems import (
    BENCHMARKS,
    find_problem,
)
from maxatk.problems.benchmarks.base import SolvedProblem
from maxatk.problems.check import (
    ambiguous_problems,
    check_solutions,
    checked_problems,
    replaceable_calls,
)
from maxatk.problems.checkers import read_checkers
from maxatk.problems.load import read_problems, solutions_file
from maxatk.records import Problem
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.gold_answers import check_answers
from maxatk.settings import apply_overrides
from maxatk.verifier import VerifierSettings
from maxatk.verl.dataset import write_parquet
from maxatk.writing import check_file

_TESTS = 3  # of a problem that are shown
_LONGEST = 1000  # characters of a text of a test that are shown
Overrides = Annotated[tuple[str, ...], tyro.conf.Positional]


def list_benchmarks(format: OutputFormat = "text") -> None:
    """List the benchmarks: source, licence, size, splits and options."""
    rows = [
        {
            "benchmark": name,
            "hub": benchmark.hub,
            "config": benchmark.config,
            "licence": benchmark.licence,
            "size": benchmark.size,
            "splits": list(benchmark.splits),
            "default_split": benchmark.default_split,
            "options": [field.name for field in dataclasses.fields(benchmark.options)],
        }
        for name, benchmark in BENCHMARKS.items()
    ]
    emit({"benchmarks": shown(rows)}, format)


def show(
    name: Annotated[str, tyro.conf.Positional],
    problem_id: Annotated[str, tyro.conf.Positional],
    overrides: Overrides = (),
    /,
    split: str | None = None,
    file: Path | None = None,
    format: OutputFormat = "text",
) -> None:
    """Show one problem: limits, prompt, three tests and reference solution; as JSON all of it.

    Args:
        name: A benchmark or a problems.jsonl.
        problem_id: The id of the problem, with or without the benchmark's name before it.
        overrides: Options of the benchmark, such as form=asserts.
        split: A split of the benchmark; its default one if not given.
        file: A local file or folder of the benchmark's schema, instead of the hub.
    """
    options = apply_overrides({}, overrides)
    solved = find_problem(name, problem_id, split=split, file=file, options=options or None)
    row = {**solved.problem.to_json(), "solution": solved.solution}
    emit({"problem": Output([row])}, format, text=_problem_text(solved))


def check(
    problems: Annotated[Path, tyro.conf.Positional],
    /,
    ambiguous: bool = False,
    checkers: Path | None = None,
    drop: Path | None = None,
    verifier: VerifierSettings = VerifierSettings(),  # noqa: B008
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Run every problem's reference solution through the verifier and report those that fail.

    Problems with an answer and without tests: which answers would not be recognised in a
    completion? Of tests with a call: in which could a program replace what judges it?

    Args:
        problems: A problems.jsonl, beside which `problems prepare` wrote X.solutions.jsonl.
        ambiguous: Report instead where two right solutions print unequal outputs; see `solutions`
            of `problems prepare`. It is about problems with tests alone.
        checkers: A file with checkers by id, {"id": ..., "checker": ...} a line.
        drop: Also write the problems here, with their checkers, without those that are reported.
        verifier: Its workers and limits.
    """
    refuse_two_outputs(format, progress)
    if drop is not None:
        check_file("--drop", drop, reads=[problems, checkers, solutions_file(problems)])
    by_id = checked_problems(problems, {} if checkers is None else read_checkers(checkers))
    remark = replaceable_calls(by_id.values())
    if remark:
        say_aside(f"{problems}: {remark}")
    counts, reported = _checked(problems, by_id, ambiguous, verifier, progress)
    text = ""
    if drop is not None:
        dropped = {row["problem_id"] for rows in reported.values() for row in rows}
        kept = [problem.to_json() for problem in by_id.values() if problem.id not in dropped]
        write_jsonl(drop, kept)
        text = f"{drop}: {counted(len(kept))}"
    if progress == "json":
        return
    tables = {"checked": shown([{"problems": str(problems), **counts}])}
    for name, rows in reported.items():
        # People see the last line of an error, which names it.
        short = [
            {**row, "stderr": row["stderr"].rpartition("\n")[2]} if "stderr" in row else row
            for row in rows
        ]
        tables[name] = Output(rows, shown(short).table)
    emit(tables, format, text=text)


def _checked(
    path: Path,
    problems: Mapping[str, Problem],
    ambiguous: bool,
    settings: VerifierSettings,
    progress: ProgressMode,
) -> tuple[dict[str, int], dict[str, list[dict[str, Any]]]]:
    """Return the counts of a check, and the problems that it reports by the name of their table."""
    without_tests = [problem for problem in problems.values() if not problem.tests]
    with_answer = [problem for problem in without_tests if problem.answer is not None]
    has_tests = len(without_tests) < len(problems)
    if ambiguous and not has_tests:
        raise InvalidValueError(
            f"--ambiguous: is for problems with tests, of which {str(path)!r} has none"
        )
    reward = None
    if with_answer and not ambiguous:
        # Before the solutions run: it says so where math-verify is missing.
        reward = AnswerReward(workers=settings.workers)
    counts: dict[str, int] = {}
    reported: dict[str, list[dict[str, Any]]] = {}
    if has_tests:
        name = "ambiguous" if ambiguous else "failures"
        examine = ambiguous_problems if ambiguous else check_solutions
        with settings.open() as verifier, progress_of("check", progress) as report:
            counts, reported[name] = examine(path, problems, verifier=verifier, progress=report)
    if reward is not None:
        counts_of_answers, reported["unrecognised"] = check_answers(with_answer, reward)
        counts |= counts_of_answers
    if len(with_answer) < len(without_tests) and not ambiguous:
        counts["without_tests_and_answer"] = len(without_tests) - len(with_answer)
    return counts, reported


def export(
    problems: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    target: Annotated[Literal["verl"], tyro.conf.arg(name="for")],  # noqa: ARG001
    out: Path,
) -> None:
    """Write problems in the form that another trainer reads.

    Args:
        problems: A problems.jsonl.
        target: The trainer; verl reads parquet.
        out: The file to write.
    """
    check_file("--out", out, reads=[problems])
    written = write_parquet(read_problems(problems).values(), out)
    print(f"{out}: {counted(written)}")


def select(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path,
    problems: str | None = None,
    map: MapFlag = (),
    k: int = 1,
    min_max_at_k: float | None = 0.0,
    max_max_at_k: float = 1.0,
) -> None:
    """Keep the problems whose max@k in an evaluation lies strictly between two values.

    With the defaults, and rewards from 0 to 1, these are those that have a signal to train on: not
    all rewards are 0, or 1. Where rewards go below 0 or above 1, give bounds of your own.

    They are for training. To compare models take problems that no model chose: these favour the
    model of the run where k is large, because it solves each of them sometimes. Without a lower
    bound they are those that it solves seldom or never, which handicaps it.

    Example: maxatk problems select runs/eval/base --out runs/train.jsonl

    Args:
        run: A folder written by eval or score.
        out: The problems.jsonl to write.
        problems: The problems of the run, where it does not say them itself.
        k: Of how many samples the best counts; 1 is the mean reward.
        min_max_at_k: Problems with this max@k or less are left out; None keeps those that the
            model never solved.
        max_max_at_k: Problems with this max@k or more are left out.
    """
    source = problems or recorded_problems(run)
    check_file("--out", out, reads=[source, *run_files(run)])
    chosen = select_problems(
        run, source, k=k, above=min_max_at_k, below=max_max_at_k, mapping=parse_mapping(map)
    )
    if not chosen:
        raise DataError(f"{run}: no problem has a max@{k} between the bounds; {out} is not written")
    write_jsonl(out, (problem.to_json() for problem in chosen))
    print(f"{out}: {counted(len(chosen))}")
    say_aside(
        "These problems are for training: a comparison on them favours the model that chose them "
        "at large k, or handicaps it where it solved none. Each has the rule in meta.selected_by."
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_benchmarks,
    "show": show,
    "prepare": problems_prepare.command,
    "check": check,
    "select": select,
    "export": export,
}


def _problem_text(solved: SolvedProblem) -> str:
    """Return a problem for people: a section for each of its texts."""
    row = solved.problem.to_json()
    tests = row.get("tests", [])
    facts = {"tests": len(tests)}
    for name in ("compare", "time_limit_s", "memory_limit_mb", "entry_point", "answer"):
        if name in row:
            facts[name] = row[name]
    facts_text = "; ".join(f"{name}: {value}" for name, value in facts.items())
    sections = {row["id"]: facts_text, "prompt": row["prompt"]}
    for number, test in enumerate(tests[:_TESTS]):
        for name, text in test.items():
            left_out = f"... ({len(text):,} characters)" if len(text) > _LONGEST else ""
            sections[f"test {number}, {name}"] = text[:_LONGEST] + left_out
    sections["reference solution"] = solved.solution or "none in the data set"
    return "\n\n".join(f"--- {title}\n{text.rstrip()}" for title, text in sections.items())
