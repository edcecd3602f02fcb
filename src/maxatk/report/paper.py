"""The published numbers: Tables 5 to 14 of "The Best of N Worlds", to be shown beside ours."""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Mapping, Sequence

from maxatk.errors import unknown_name
from maxatk.report.cells import Cell, Column, Table, shaded, tabulate
from maxatk.report.numbers import share
from maxatk.report.runs import metric_name

PAPER_BENCHMARKS: Mapping[str, str] = {
    "code_contests": "CodeContests",
    "livecodebench": "LiveCodeBench",
    "livebench": "LiveBench",
    "codeforces": "CodeForces",
    "mbpp": "MBPP",
}


def paper_tables(benchmark: str) -> dict[str, Table]:
    """Return {"max@k", "pass@k"} of the paper's models on a benchmark, k = 1, 2, 4 ... 256.

    The paper's model has 7 billion parameters and its prompts are not published, so that the
    numbers tell the shape to expect, not a value to reach. Raises InvalidValueError for a
    benchmark that the paper does not have.
    """
    if benchmark not in PAPER_BENCHMARKS:
        raise unknown_name("paper", benchmark, PAPER_BENCHMARKS)
    data = importlib.resources.files("maxatk.report") / "data" / "paper.csv"
    header, *rows = csv.reader(data.read_text(encoding="utf-8").splitlines())
    ks = range(4, len(header))
    tables = {}
    for metric in ("max@k", "pass@k"):
        chosen = [row for row in rows if row[1:3] == [benchmark, metric]]
        columns = [
            Column(f"Table {chosen[0][0]} of the paper", lambda row: Cell(row[3])),
            *(_value_column(chosen, place, metric, int(header[place])) for place in ks),
        ]
        tables[metric] = tabulate(columns, chosen)
    return tables


def _value_column(
    rows: Sequence[Sequence[str]], place: int, metric: str, k: int
) -> Column[Sequence[str]]:
    values = [float(row[place]) for row in rows]
    shades = dict(zip(values, shaded(values), strict=True))

    def cell(row: Sequence[str]) -> Cell:
        value = float(row[place])
        return Cell(share(value), shade=shades[value])

    return Column(metric_name(metric, k), cell)
