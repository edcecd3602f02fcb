"""The command `diagnose`: what a training can gain, and what went wrong in one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from maxatk.check import existing_folder
from maxatk.cli.output import Output, OutputFormat, emit, shown
from maxatk.cli.progress import progress_of
from maxatk.diagnose.gradients import gradient_tables
from maxatk.diagnose.prospects import Rows, prospects
from maxatk.diagnose.rates import rate_rows, suggested_rate
from maxatk.errors import InvalidValueError, counted
from maxatk.evaluation.folder import SCORES, refuse_file
from maxatk.report.tables import Table, TidyRow, table_of_rows, three_decimals
from maxatk.training.group_log import training_log
from maxatk.training.symptoms import SYMPTOMS, findings, training_rows

_TEMPERATURES = (
    "before a training, sample at lower temperatures too, which may be worth more: "
    "maxatk study evaluation/temperatures model=MODEL eval.problems=FILE"
)


def command(
    folder: Annotated[Path, tyro.conf.Positional],
    others: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    /,
    best_of: int | None = None,
    n: tuple[int, ...] = (),
    k: tuple[int, ...] = (),
    difference: tuple[float, ...] = (0.02, 0.05),
    gradients: bool = False,
    prompts: int = 16,
    format: OutputFormat = "text",
) -> None:
    """Say before a training what it can gain, or of a training what went wrong.

    Of a folder written by eval or score: how many groups will have a signal for each n and k, what
    max@k can still gain, what the methods weigh on these problems, how many problems and seeds
    show a difference, and an n, k and method that suit. With --gradients the model is loaded: how
    far max@1 and max@k agree, which problems interfere, and how noisy each method is.

    Of a training, finished or not: which rules its log breaks, with evidence and remedy. Of
    several trainings at other learning rates: the smallest rate that still learns.

    Example: maxatk diagnose runs/base --best-of 64

    Args:
        folder: A folder with scores.jsonl, or with train.json, groups.jsonl or checkpoints.
        others: Further trainings, of the same steps at other learning rates.
        best_of: How many answers the best is taken of in use; half of the samples, or 2, if not
            given.
        n: Sizes of a group, of which those above the samples of a problem are left out; 4, 8, 16
            and 32 if none is given, or all samples of a problem that has 2 or 3.
        k: The k of the tables; 1, 2, 4, ... up to half of the samples if none is given.
        difference: The differences of max@k that an evaluation is to show.
        gradients: Also compute gradients on the stored samples, at the n and k that suit.
        prompts: Of how many problems, for --gradients.
    """
    refuse_file("folder", folder)
    existing_folder("folder", folder)
    log = training_log(folder)
    if others:
        _print_rates([folder, *others], format)
    elif log is not None:
        _print_findings(folder, log, format)
    elif (folder / SCORES).is_file():
        tables = prospects(folder, best_of=best_of, ns=n, ks=k, differences=difference)
        if gradients:
            (suggestion,) = tables["suggestion"]
            best_of_group = max(suggestion["k"], 2)  # max@1 is compared with a larger k
            with progress_of("diagnose") as report:
                tables |= gradient_tables(
                    folder, n=suggestion["n"], k=best_of_group, prompts=prompts, progress=report
                )
        _print_prospects(tables, format)
    else:
        raise InvalidValueError(
            f"folder: must hold {SCORES} of an evaluation, or train.json, groups.jsonl or "
            f"checkpoints of a training, got {str(folder)!r}"
        )


def _print_rates(folders: Sequence[Path], output_format: OutputFormat) -> None:
    logs = {}
    for folder in folders:
        log = training_log(folder)
        if log is None:
            raise InvalidValueError(
                f"others: several folders must all be trainings, and {str(folder)!r} holds no "
                "train.json, groups.jsonl or checkpoints"
            )
        logs[str(folder)] = log
    rows = rate_rows(logs)
    title = (
        "mean reward in the first and the last third of the log; best rise: that of max@n of the "
        "groups"
    )
    values = ("first", "last", "rise", "error", "best_rise")
    table = shown([{**row, **_shares(row, *values)} for row in rows]).table
    emit({"rates": Output(rows, table, title)}, output_format, text=suggested_rate(rows))


def _print_findings(folder: Path, log: Sequence[TidyRow], output_format: OutputFormat) -> None:
    rows = len(training_rows(log))
    if not rows:
        raise InvalidValueError(f"folder: {str(folder)!r}: its log has no row about training")
    broken = [
        {
            "finding": finding.symptom.name,
            "evidence": finding.evidence,
            "remedy": finding.symptom.remedy,
        }
        for finding in findings(log)
    ]
    evidence = {row["finding"]: row["evidence"] for row in broken}
    rules = [{**dataclasses.asdict(rule), "evidence": evidence.get(rule.name)} for rule in SYMPTOMS]
    text = f"{len(broken)} of {len(SYMPTOMS)} rules fire on {counted(rows, 'row')} of the log"
    emit({"findings": shown(broken), "rules": Output(rules)}, output_format, text=text)


def _print_prospects(tables: dict[str, Rows], output_format: OutputFormat) -> None:
    (about,) = tables["problems"]
    (suggestion,) = tables["suggestion"]
    samples = counted(about["samples"], "sample")
    titles = {
        "signal": f"share of the groups with a signal for max@k, from "
        f"{counted(about['problems'])} with {samples} or more, of which those count that "
        "have n rewards",
        "gain": "missing: from max@k to the best stored sample of a problem with k rewards, on "
        "average; rise: the problems where anything is missing; beyond: from the best stored "
        "sample to a reward of 1",
        "weights": "share of the gradient by the log odds of success, by how often problems are "
        "solved",
        "agreement": "cosine of the gradients of max@1 and max@k, and the share of the problems "
        "whose max@1 pulls against that of the others",
        "noise": "groups in a step whose mean gradient has as much signal as noise",
        "needed": "problems, or seeds, with which a comparison finds a difference of max@k in 80% "
        f"of all cases, with {samples} a problem; problems where a reward is 1 for a sample that "
        "passes and 0 for others, – where no model can be so far above; seeds as trainings of the "
        "built-in model differ",
    }
    outputs = {
        name: shown(tables[name], title=title) for name, title in titles.items() if name in tables
    }
    gains = [{**row, **_shares(row, "max@k", "missing", "beyond")} for row in tables["gain"]]
    outputs["gain"] = Output(tables["gain"], shown(gains).table, titles["gain"])
    for name, index in (("signal", ["n", "problems"]), ("weights", ["solved", "problems"])):
        outputs[name] = Output(tables[name], _pivot(tables[name], index), titles[name])
    outputs["suggestion"] = shown([suggestion], "n", "k", "method")
    outputs["problems"] = Output([about])
    emit(outputs, output_format, text=f"{suggestion['reason']}\n{_TEMPERATURES}")


def _shares(row: TidyRow, *fields: str) -> TidyRow:
    """Return these numbers of a row as people read values of a metric."""
    return {field: three_decimals(row[field]) for field in fields}


def _pivot(rows: Sequence[TidyRow], index: Sequence[str]) -> Table:
    """Return the shares of tidy rows: a line for each value of `index`, a column a method and k."""
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        parts = []
        if row.get("method"):
            parts.append(row["method"])
        if row["k"]:
            parts.append(f"k={row['k']}")
        line = lines.setdefault(tuple(str(row[name]) for name in index), {})
        line[" ".join(parts)] = three_decimals(row["share"])
    headings = list(dict.fromkeys(heading for line in lines.values() for heading in line))
    cells = []
    for start, line in lines.items():
        cells.append([*start, *(line.get(heading, "–") for heading in headings)])
    return table_of_rows((*index, *headings), cells)
