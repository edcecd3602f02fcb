"""Scores and paired tests: a table of tests for people, and both as rows for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.report import tables
from maxatk.report.comparison import SPEAKS_OF, Comparison, Over
from maxatk.report.paired_tests import Measure, PairedTest
from maxatk.report.tables import Cell, Table, TidyRow, table_of
from maxatk.statistics.significance import FEWEST_SEEDS, smallest_sign_flip_p


def table_of_tests(heading: str, tests: Sequence[PairedTest], *, over: Over = "problems") -> Table:
    """Return one row a test, starred where significant; `heading` says what is less what."""
    seeds = len(tests[0].by_seed)
    columns: dict[str, list[Cell | str]] = {
        heading: [f"{test.first} − {test.second}" for test in tests],
        "metric": [test.measure.name for test in tests],
        "difference": [_difference_cell(test) for test in tests],
        f"95%, {SPEAKS_OF[over]}": [tables.change_interval(test.low, test.high) for test in tests],
    }
    if not seeds:
        columns["problems"] = [f"{test.problems:,}" for test in tests]
        columns["equal"] = [f"{test.zeros:,}" for test in tests]
    columns["p"] = [tables.p_value(test.p) for test in tests]
    columns["adjusted p"] = [tables.p_value(test.adjusted_p) for test in tests]
    if seeds:
        flips = f"sign flips, p (at best {smallest_sign_flip_p(seeds):.3g})"
        columns[flips] = [tables.p_value(test.sign_flip_p) for test in tests]
        columns["seeds above"] = [f"{test.above} of {seeds}" for test in tests]
    if seeds >= FEWEST_SEEDS:
        columns[f"95%, {SPEAKS_OF['problems']}"] = [
            tables.change_interval(test.prompts_low, test.prompts_high) for test in tests
        ]
    return table_of(columns)


def _difference_cell(test: PairedTest) -> Cell:
    return Cell(tables.change(test.difference), mark=test.mark, starred=test.significant)


def score_rows(comparisons: Mapping[str, Comparison], measures: Sequence[Measure]) -> list[TidyRow]:
    """Return the mean of every model in every measure, with 95% interval, and what it lacks."""
    rows: list[TidyRow] = []
    for measure in measures:
        for run in comparisons[measure.benchmark].runs:
            mean = run.metric(measure.metric, measure.k)
            rows.append(
                {
                    **dataclasses.asdict(measure),
                    "model": run.name,
                    "mean": mean.mean,
                    "low": mean.low,
                    "high": mean.high,
                    "problems": mean.problems,
                    **run.results.counts.row,
                }
            )
    return rows


def row_of_test(test: PairedTest) -> dict[str, Any]:
    """Return a test as a row: benchmark, metric, k, first, second, its numbers and of its seeds."""
    row = dataclasses.asdict(test)
    measure = row.pop("measure")
    row["equal"] = row.pop("zeros")
    row["seeds"] = len(row.pop("by_seed"))
    row["seeds_above"] = test.above
    return {**measure, **row}
