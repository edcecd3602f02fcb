"""A comparison as plain rows, one number a cell: for CSV, JSON and data frames."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from maxatk.report.comparing import ModelComparison
from maxatk.report.deciding import Measure, PairedTest

TidyRow = Mapping[str, Any]


def tidy_rows(compared: ModelComparison) -> dict[str, list[TidyRow]]:
    """Return the rows of the tables "scores", "leaders", "differences" and "verdict".

    A score has benchmark, metric, k, model, mean, low, high (95%) and problems; a test has
    benchmark, metric, k, first, second, difference, low, high, problems, equal, p, adjusted_p,
    significant and wilcoxon_p; a verdict has benchmark, metric, k, test, best and tied, the models
    that the test does not tell from the best. None is a number that does not exist.
    """
    means = {
        measure: compared.comparisons[measure.benchmark].means(measure.metric, measure.k)
        for measure in compared.measures
    }
    scores: list[TidyRow] = [
        {
            **_place(measure),
            "model": name,
            **{key: found[key] for key in ("mean", "low", "high", "problems")},
        }
        for measure in compared.measures
        for name in compared.names
        for found in [means[measure][name]]
    ]
    return {
        "scores": scores,
        "leaders": [_test(test) for test in compared.leaders],
        "differences": [_test(test) for test in compared.differences],
        "verdict": [
            {
                **_place(Measure(benchmark, decision.metric, k)),
                "test": decision.test,
                "best": best,
                "tied": " ".join(tied),
            }
            for (benchmark, _), decision in compared.decisions.items()
            for k, (best, *tied) in decision.leaders.items()
        ],
    }


def _place(measure: Any) -> dict[str, Any]:
    return {"benchmark": measure.benchmark, "metric": measure.metric, "k": measure.k}


def _test(test: PairedTest) -> dict[str, Any]:
    return {
        **_place(test.measure),
        "first": test.first,
        "second": test.second,
        "difference": test.difference,
        "low": test.low,
        "high": test.high,
        "problems": test.problems,
        "equal": test.zeros,
        "p": test.p,
        "adjusted_p": test.adjusted_p,
        "significant": test.significant,
        "wilcoxon_p": test.wilcoxon_p,
    }


def as_csv(rows: Sequence[TidyRow]) -> str:
    """Return rows as CSV with a header, in ASCII; a number that does not exist is empty."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def as_json(tables: Mapping[str, Sequence[TidyRow]]) -> str:
    """Return tables of rows as one JSON object in ASCII; a number that does not exist is null."""
    rows = {name: [_strict(row) for row in found] for name, found in tables.items()}
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _strict(row: TidyRow) -> dict[str, Any]:
    """Return a row whose NaN and infinities, which JSON does not have, are None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
