"""Tables about evaluations, as markup of the page: all models, and their problems one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set

from maxatk.errors import counted
from maxatk.report.comparison import Comparison, Run
from maxatk.report.run_tables import overview_table
from maxatk.report.tables import Cell, Table, table_of_rows, three_decimals
from maxatk.view.markup import markup_of


def overview_markup(comparison: Comparison) -> str:
    """Return the metrics of every model, and over how many problems they are."""
    # An evaluation that runs has some problems only.
    counts = [len(run.results.ids) for run in comparison.runs]
    fewest = min(counts)
    most = max(counts)
    problems = counted(most) if fewest == most else f"{fewest:,} to {most:,} problems"
    same = "; pass@k is the same" if len(comparison.metrics) == 1 else ""
    caption = f"Unbiased estimates with 95% intervals over {problems} that have all samples{same}."
    return markup_of(_overview(comparison), caption, "overview")


def _overview(comparison: Comparison) -> Table:
    """Return the metrics of every model; on problems of their own none of them is the best."""
    overview = overview_table(comparison, metrics=comparison.metrics)
    baseline = comparison.baseline.results
    place = "settings.problems"
    if all(
        run.results.ids == baseline.ids and run.results.recorded(place) == baseline.recorded(place)
        for run in comparison.runs
    ):
        return overview
    rows = [[dataclasses.replace(cell, mark="") for cell in row] for row in overview.rows]
    return table_of_rows(overview.header, rows)


def problems_markup(
    comparison: Comparison, places: Sequence[Mapping[str, str]], *, most: int
) -> str:
    """Return max@1 of every model on the first problems, and max@k for the largest k of all.

    `places` has for every model, by the id of a problem, the address of its samples on the page.
    """
    all_ids = dict.fromkeys(name for run in comparison.runs for name in run.results.ids)
    ids = list(all_ids)[:most]
    cells_of_runs = [
        _problem_cells(run, set(ids), addresses, largest_k=comparison.ks[-1])
        for run, addresses in zip(comparison.runs, places, strict=True)
    ]
    rows = [[name, *(cells.get(name, "–") for cells in cells_of_runs)] for name in ids]
    caption = (
        "max@1 of each problem, and below it max@k for the largest k of all models; a value opens "
        "the samples of its model."
    )
    return markup_of(table_of_rows(("problem", *comparison.names), rows), caption, "problems")


def _problem_cells(
    run: Run, ids: Set[str], addresses: Mapping[str, str], *, largest_k: int
) -> dict[str, Cell]:
    """Return the cells of these problems of a run, each of which opens its samples."""
    values = run.results.per_problem.values["max@k"]
    cells = {}
    for row, problem_id in enumerate(run.results.ids):
        if problem_id in ids:
            best = f"max@{largest_k} {three_decimals(values[largest_k][row])}"
            cells[problem_id] = Cell(
                three_decimals(values[1][row]), best, link=addresses[problem_id]
            )
    return cells
