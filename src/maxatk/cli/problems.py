"""The command `problems`: list the benchmarks, show a problem, prepare and check problems files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maxatk.cli.flags import MapFlag
from maxatk.cli.output import Output, OutputFormat, emit, refuse_two_outputs, say_aside, shown
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import DataError, InvalidValueError, MissingFileError, unknown_name
from maxatk.evaluation.folder import run_files
from maxatk.evaluation.problem_selection import select_problems
from maxatk.jsonl import write_jsonl
from maxatk.problems import (
    BENCHMARKS,
    PrepareSettings,
    find_problem,
    prepare,
    read_sets,
    refuse_foreign_outputs,
)
from maxatk.problems.benchmarks.base import SolvedProblem
from maxatk.problems.check import ambiguous_problems, check_solutions, checked_problems
from maxatk.problems.checkers import read_checkers
from maxatk.problems.load import read_problems, solutions_file
from maxatk.rewards.answers import AnswerReward
from maxatk.rewards.gold_answers import check_answers
from maxatk.settings import apply_overrides, read_recipe
from maxatk.verifier import VerifierSettings
from maxatk.verl.dataset import write_parquet
from maxatk.writing import refuse_sources

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


def prepare_files(
    recipe: Annotated[str, tyro.conf.Positional],
    overrides: Overrides = (),
    /,
    *,
    out: Path,
    map: MapFlag = (),
    only: str | None = None,
    file: Path | None = None,
    checkers: Path | None = None,
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Make problems.jsonl of a benchmark, filtered and split as a recipe says, and count the rows.

    Beside X.jsonl lie X.solutions.jsonl, X.left_out.jsonl (with the reasons) and X.manifest.json.
    If interrupted, rerun the same command: it resumes.

    Args:
        recipe: A YAML file with the mapping `sets`, or the name of a benchmark.
        overrides: Settings that win, such as split=train limit=20 options.form=asserts, of a recipe
            sets.mbpp.file=rows.jsonl.
        out: The problems.jsonl to write; a folder for a recipe of several sets.
        only: Prepare this set of the recipe alone.
        file: A local file or folder of the benchmark's schema, instead of the hub.
        checkers: A file with checkers by id, {"id": ..., "checker": ...} a line.
    """
    refuse_two_outputs(format, progress)
    columns = [f"options.{field}" for field in map]
    sets = _sets(recipe, (*overrides, *columns), file, only)
    if checkers is not None:
        sets = {
            name: dataclasses.replace(settings, checkers=str(checkers))
            for name, settings in sets.items()
        }
    targets = _targets(sets, out)
    for name, settings in sets.items():  # everything that can be refused is refused before work
        refuse_foreign_outputs(settings, targets[name])
        settings.check()
    counters = {name: _token_counter(settings) for name, settings in sets.items()}
    manifests = {}
    for name, settings in sets.items():
        with progress_of(name, progress) as report:
            manifests[name] = prepare(
                settings, targets[name], count_tokens=counters[name], progress=report
            )
    if progress != "json":
        emit(_prepared(manifests), format)
    for name, manifest in manifests.items():
        if not manifest["counts"]["kept"]:
            raise DataError(f"{name}: no row became a problem; {targets[name]} is empty")


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
    completion?

    Args:
        problems: A problems.jsonl, beside which `problems prepare` wrote X.solutions.jsonl.
        ambiguous: Report instead where two right solutions print unequal outputs; see `solutions`
            of `problems prepare`.
        checkers: A file with checkers by id, {"id": ..., "checker": ...} a line.
        drop: Also write the problems here, with their checkers, without those that are reported.
        verifier: Its workers and limits.
    """
    refuse_two_outputs(format, progress)
    if drop is not None:
        refuse_sources("--drop", drop, [problems, checkers, solutions_file(problems)])
    by_id = checked_problems(problems, {} if checkers is None else read_checkers(checkers))
    with verifier.open() as opened, progress_of("check", progress) as report:
        if not any(problem.tests for problem in by_id.values()):
            reward = AnswerReward(workers=opened.workers)
            counts, rows = check_answers(list(by_id.values()), reward)
            name = "unrecognised"
        elif ambiguous:
            counts, rows = ambiguous_problems(problems, by_id, verifier=opened, progress=report)
            name = "ambiguous"
        else:
            counts, rows = check_solutions(problems, by_id, verifier=opened, progress=report)
            name = "failures"
    text = ""
    if drop is not None:
        reported = {row["problem_id"] for row in rows}
        kept = [problem.to_json() for problem in by_id.values() if problem.id not in reported]
        write_jsonl(drop, kept)
        text = f"{drop}: {len(kept)} problems"
    if progress == "json":
        return
    # People see the last line of an error, which names it.
    short = [
        {**row, "stderr": row["stderr"].rpartition("\n")[2]} if "stderr" in row else row
        for row in rows
    ]
    tables = {
        "checked": shown([{"problems": str(problems), **counts}]),
        name: Output(rows, shown(short).table),
    }
    emit(tables, format, text=text)


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
    print(f"{out}: {write_parquet(read_problems(problems).values(), out)} problems")


def select(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    *,
    out: Path,
    problems: str | None = None,
    k: int = 1,
    min_max_at_k: float | None = 0.0,
    max_max_at_k: float = 1.0,
) -> None:
    """Keep the problems whose max@k in an evaluation lies strictly between two values.

    With the defaults these are those that have a signal to train on: not all rewards are 0, or 1.
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
    refuse_sources("--out", out, [problems, *run_files(run)])
    chosen = select_problems(run, problems, k=k, above=min_max_at_k, below=max_max_at_k)
    if not chosen:
        raise DataError(f"{run}: no problem has a max@{k} between the bounds; {out} is not written")
    write_jsonl(out, (problem.to_json() for problem in chosen))
    print(f"{out}: {len(chosen)} problems")
    say_aside(
        "These problems are for training: a comparison on them favours the model that chose them "
        "at large k, or handicaps it where it solved none. Each has the rule in meta.selected_by."
    )


COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_benchmarks,
    "show": show,
    "prepare": prepare_files,
    "check": check,
    "select": select,
    "export": export,
}


def _sets(
    recipe: str, overrides: Sequence[str], file: Path | None, only: str | None
) -> dict[str, PrepareSettings]:
    """Return the sets of a recipe, or the one of a benchmark, and of them `only` one if given."""
    if Path(recipe).suffix in (".yaml", ".yml"):
        if file is not None:
            raise InvalidValueError("--file: for a recipe write sets.NAME.file=... instead")
        sets = read_sets(read_recipe(Path(recipe), overrides))
    elif recipe in BENCHMARKS:
        settings = {**apply_overrides({}, overrides), "benchmark": recipe}
        if file is not None:
            settings["file"] = str(file)
        sets = read_sets({"sets": {recipe: settings}})
    else:
        raise unknown_name("problems", recipe, [*BENCHMARKS, "a recipe ending in .yaml"])
    if only is not None and only not in sets:
        raise unknown_name("--only", only, sets)
    return {name: settings for name, settings in sets.items() if only in (None, name)}


def _targets(sets: Mapping[str, PrepareSettings], out: Path) -> dict[str, Path]:
    if out.suffix != ".jsonl":
        return {name: out / f"{name}.jsonl" for name in sets}
    if len(sets) > 1:
        raise InvalidValueError(
            f"out: the recipe has {len(sets)} sets, name a folder instead of {str(out)!r} or "
            f"one of them with --only: {', '.join(sets)}"
        )
    return dict.fromkeys(sets, out)


def _token_counter(settings: PrepareSettings) -> Callable[[str], int] | None:
    if settings.max_prompt_tokens is None or settings.tokenizer is None:
        return None
    from maxatk.models import load_tokenizer, prompt_ids, refuse_missing_model

    refuse_missing_model(settings.tokenizer)
    try:
        tokenizer = load_tokenizer(settings.tokenizer)
    except (OSError, ValueError) as error:
        text = f"tokenizer: {settings.tokenizer!r} has none that can be loaded: {error}"
        raise MissingFileError(text) from error
    return lambda prompt: len(prompt_ids(tokenizer, prompt))


def _problem_text(solved: SolvedProblem) -> str:
    """Return a problem for people: a section for each of its texts."""
    row = solved.problem.to_json()
    tests = row.get("tests", [])
    facts = {"tests": len(tests)}
    for name in ("compare", "time_limit_s", "memory_limit_mb", "entry_point", "answer"):
        if name in row:
            facts[name] = row[name]
    about = "; ".join(f"{name}: {value}" for name, value in facts.items())
    sections = {row["id"]: about, "prompt": row["prompt"]}
    for number, test in enumerate(tests[:_TESTS]):
        for name, text in test.items():
            left_out = f"... ({len(text):,} characters)" if len(text) > _LONGEST else ""
            sections[f"test {number}, {name}"] = text[:_LONGEST] + left_out
    sections["reference solution"] = solved.solution or "none in the data set"
    return "\n\n".join(f"--- {title}\n{text.rstrip()}" for title, text in sections.items())


def _prepared(manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, Output]:
    """Return what became of the rows of each set, and the files that were written."""
    counted = ("rows", "kept", "solutions", "tests", "with_duplicates", "duplicates")
    sets = []
    left_out = []
    files = []
    for name, manifest in manifests.items():
        counts = manifest["counts"]
        sets.append({"set": name, **{key: counts[key] for key in counted}})
        for reason, rows in counts["left_out"].items():
            left_out.append({"set": name, "reason": reason, "rows": rows})
        for file, facts in manifest["files"].items():
            files.append({"set": name, "file": file, **facts})
    return {
        "sets": shown(sets),
        "left_out": shown(left_out, title="rows left out, by reason"),
        "files": shown(files),
    }
