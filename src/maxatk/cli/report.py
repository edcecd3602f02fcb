"""The command `report`: evaluated models in one offline HTML page."""

from __future__ import annotations

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
    from maxatk.report import figure1, write_report  # need matplotlib, which --help does not

    sources, ks = named_paths(results), k or None
    loaded = {
        name: load_results(source, ks=ks, threshold=threshold, column=column)
        for name, source in sources.items()
    }
    for found in loaded.values():  # before anything is written
        check_by(found["per_problem"].get("meta") or (), by)
    write_report(
        sources,
        out,
        title=title,
        baseline=baseline,
        ks=ks,
        threshold=threshold,
        column=column,
        curves=[_curve(name, folder) for name, folder in named_paths(train).items()],
        paper=paper,
        problems=[] if problems is None else load_problems(problems),
        samples=samples,
    )
    figure1(sources, out.with_name(f"{out.stem}-figure1.{figure}"), baseline=baseline)
    if format == "json":
        print_json(result_rows(loaded, ks=k, by=by))
    elif format == "text":
        print_overview(loaded, ks=k, by=by)
        print(f"report: {out}")  # noqa: T201
    else:
        comparison = load_comparison(
            loaded, baseline=baseline, ks=ks, threshold=threshold, column=column
        )
        tables = [every_k(comparison, metric) for metric in METRICS]
        print("\n".join(format_table(table, format) for table in tables), end="")  # noqa: T201


def _curve(name: str, folder: Path) -> dict[str, Any]:
    record = folder / TRAIN_RECORD
    if not record.is_file():
        raise MissingFileError(f"train: {str(folder)!r} holds no {TRAIN_RECORD}")
    found = read_json(record)
    if "log_history" not in found:
        raise DataError(f"{record}: the training has not finished")
    return {"name": name, **found}
