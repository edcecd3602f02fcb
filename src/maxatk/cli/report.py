"""The command `report`: evaluated models in one offline HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maxatk.cli.paths import named_paths
from maxatk.cli.results import print_overview, result_rows
from maxatk.cli.tables import print_json
from maxatk.errors import DataError, MissingFileError
from maxatk.evaluation.groups import check_by
from maxatk.evaluation.sources import load_results
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.problems import load_problems
from maxatk.records import Problem
from maxatk.report import format_table
from maxatk.report.run_tables import every_k
from maxatk.report.runs import METRICS, load_comparison


def command(
    results: Annotated[tuple[str, ...], tyro.conf.Positional],
    /,
    out: Path,
    baseline: str | None = None,
    k: tuple[int, ...] = (),
    threshold: float | None = None,
    column: str | None = None,
    by: str | None = None,
    train: tuple[str, ...] = (),
    title: str = "Best of N",
    paper: Literal["code_contests", "livecodebench", "livebench", "codeforces", "mbpp"]
    | None = None,
    format: Literal["text", "md", "csv", "json", "latex"] = "text",
    figure: Literal["svg", "pdf"] = "svg",
    problems: str | None = None,
    samples: int = 3,
) -> None:
    """Write one offline HTML page about evaluated models, and Figure 1 beside it.

    Example: maxatk report base=runs/base tuned=runs/tuned --out report.html --format latex

    Args:
        results: Folders written by eval or score, or files of rewards (.csv, .jsonl, .parquet);
            name=folder gives a run a name.
        out: The page to write.
        baseline: The run the others are compared to; "base", else the first.
        k: The k of the first table, from 1 to the samples of a problem; 1, 8, 32 and 128, as far as
            all runs have them, if none is given.
        threshold: The reward from which a sample passes; the run's own, or 1.
        column: A column of the scores to take for the reward.
        by: A field of the problems' meta: also print the results by its values (text and json).
        train: Folders written by train, or name=folder, whose curves the page shows.
        title: Title of the page.
        paper: Also show the paper's numbers for this benchmark.
        format: text prints a summary, json all numbers; the others print max@k and pass@k for
            every k, as Tables 5 to 14 of the paper.
        figure: The file type of Figure 1.
        problems: A benchmark's name or a problems.jsonl, for the prompts of the problems.
        samples: How many samples of every problem and run are shown; 0 leaves them out.
    """
    write_page(
        named_paths(results),
        out,
        baseline=baseline,
        ks=k or None,
        threshold=threshold,
        column=column,
        trained=named_paths(train),
        title=title,
        paper=paper,
        by=by,
        table_format=format,
        figure=figure,
        problems=[] if problems is None else load_problems(problems),
        samples=samples,
    )


def write_page(
    results: Mapping[str, Path],
    out: Path,
    *,
    trained: Mapping[str, Path],
    title: str,
    baseline: str | None = None,
    ks: Sequence[int] | None = None,
    threshold: float | None = None,
    column: str | None = None,
    paper: str | None = None,
    by: str | None = None,
    table_format: Literal["text", "md", "csv", "json", "latex"] = "text",
    figure: str = "svg",
    problems: Sequence[Problem] = (),
    samples: int = 3,
) -> None:
    """Write the page and Figure 1, print the table and, with a summary, where they are.

    Args:
        results: The folder of each run by its name.
        out: The page to write; Figure 1 goes beside it.
        trained: The folder of each trained model by its name, for the training curves.
        title: The heading of the page.
        baseline: The run that the others are compared to.
        ks: The k of the first table.
        threshold: The reward from which a sample passes.
        column: A column of the scores that stands in for the reward.
        paper: A benchmark whose numbers in the paper are shown too.
        by: A field of the problems' `meta`, whose values get tables too.
        table_format: How the table is printed.
        figure: The suffix of Figure 1's file.
        problems: The problems whose prompts are shown.
        samples: How many samples of a problem are shown.
    """
    from maxatk.report import figure1, write_report  # need matplotlib, which --help does not

    loaded = {}
    if by is not None or table_format in ("text", "json"):
        loaded = {
            name: load_results(source, ks=ks, threshold=threshold, column=column)
            for name, source in results.items()
        }
    if by is not None:  # before anything is written
        for found in loaded.values():
            check_by(found["per_problem"].get("meta") or (), by)
    curves = [_curve(name, folder) for name, folder in trained.items()]
    write_report(
        results,
        out,
        title=title,
        baseline=baseline,
        ks=ks,
        threshold=threshold,
        column=column,
        curves=curves,
        paper=paper,
        problems=problems,
        samples=samples,
    )
    figure1(results, out.with_name(f"{out.stem}-figure1.{figure}"), baseline=baseline)
    if table_format == "json":
        print_json(result_rows(loaded, ks=ks or (), by=by))
        return
    if table_format == "text":
        print_overview(loaded, ks=ks or (), by=by)
        print(f"report: {out}")  # noqa: T201
        return
    comparison = load_comparison(
        results, baseline=baseline, ks=ks, threshold=threshold, column=column
    )
    tables = [every_k(comparison, metric) for metric in METRICS]
    print("\n".join(format_table(table, table_format) for table in tables), end="")  # noqa: T201


def _curve(name: str, folder: Path) -> dict[str, Any]:
    record = folder / TRAIN_RECORD
    if not record.is_file():
        raise MissingFileError(f"train: {str(folder)!r} holds no {TRAIN_RECORD}")
    found = read_json(record)
    if "log_history" not in found:
        raise DataError(f"{record}: the training has not finished")
    return {"name": name, **found}
