"""The command `report`: evaluated models in one offline HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from maxatk.cli.flags import MapFlag, named_paths, named_sources
from maxatk.cli.output import Output, OutputFormat, emit, say_aside
from maxatk.cli.results_output import results_output
from maxatk.errors import DataError, MissingFileError
from maxatk.evaluation.problem_groups import check_by
from maxatk.folders import TRAIN_RECORD, read_training
from maxatk.report.load_runs import Reading, load_comparison
from maxatk.report.notices import selection_lines
from maxatk.report.run_tables import every_k
from maxatk.training.group_log import GROUPS


def command(
    results: Annotated[tuple[str, ...], tyro.conf.Positional],
    /,
    out: Path,
    reading: Annotated[Reading, tyro.conf.arg(name="")] = Reading(),  # noqa: B008
    map: MapFlag = (),
    by: str | None = None,
    train: tuple[str, ...] = (),
    title: str = "Best of N",
    format: OutputFormat = "text",
    figure: Literal["svg", "pdf"] = "svg",
    samples: int = 3,
) -> None:
    """Write one offline HTML page about evaluated models, and Figure 1 beside it.

    It prints a summary, as JSON all numbers, and else max@k and pass@k as the paper's Tables 5-14.

    Example: maxatk report base=runs/base tuned=runs/tuned --out report.html --format latex

    Args:
        results: Folders written by eval or score, or files of rewards (.csv, .jsonl, .parquet);
            name=folder gives a run a name.
        out: The page to write.
        reading: How the runs are read.
        by: A field of the problems' meta: also print the results by its values (text and json).
        train: Folders written by train, or name=folder, whose curves the page shows.
        title: Title of the page.
        figure: The file type of Figure 1.
        samples: How many samples of every problem and run are shown; 0 leaves them out.
    """
    from maxatk.report import figure1, write_report  # need matplotlib, which --help does not
    from maxatk.report.page import page_path

    page = page_path(out)
    comparison = load_comparison(named_sources(results, map, reading), reading)
    for run in comparison.runs:  # before anything is written
        check_by(run.results.per_problem.meta or (), by)
    for line in selection_lines(comparison):
        say_aside(f"note: {line}")
    write_report(
        comparison,
        page,
        title=title,
        curves=[_curve(name, folder) for name, folder in named_paths(train).items()],
        samples=samples,
    )
    figure1(comparison, page.with_name(f"{page.stem}-figure1.{figure}"))
    tables = results_output({run.name: run.results for run in comparison.runs}, ks=reading.k, by=by)
    if format not in ("text", "json"):
        rows = tables["metrics"].rows
        tables = {
            metric: Output(rows, every_k(comparison, metric)) for metric in comparison.metrics
        }
    emit(tables, format, text=f"report: {page}")


def _curve(name: str, folder: Path) -> dict[str, Any]:
    if not (folder / TRAIN_RECORD).is_file() and (folder / GROUPS).is_file():
        raise MissingFileError(
            f"{folder / TRAIN_RECORD}: no such file, but {GROUPS}, as of a training that has not "
            "finished or of another trainer; maxatk view shows it"
        )
    record = read_training(folder)
    if "log_history" not in record:
        raise DataError(
            f"{folder / TRAIN_RECORD}: the training has not finished; maxatk view shows it"
        )
    return {"name": name, **record}
