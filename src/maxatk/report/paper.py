"""The published numbers: Tables 5 to 14 of "The Best of N Worlds", to be shown beside ours."""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Mapping

from maxatk.errors import unknown_name
from maxatk.report.numbers import share
from maxatk.report.tables import Cell, Table, shaded

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
    tables = {}
    for metric in ("max@k", "pass@k"):
        chosen = [row for row in rows if row[1:3] == [benchmark, metric]]
        columns = [shaded([float(row[place]) for row in chosen]) for place in range(4, len(header))]
        names = [f"{metric.removesuffix('k')}{k}" for k in header[4:]]
        tables[metric] = Table(
            (f"Table {chosen[0][0]} of the paper", *names),
            tuple(
                (
                    Cell(row[3]),
                    *(
                        Cell(share(float(value)), shade=column[number])
                        for value, column in zip(row[4:], columns, strict=True)
                    ),
                )
                for number, row in enumerate(chosen)
            ),
        )
    return tables
