"""The numbers of the page as its script reads them: values of problems, means and tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from maxatk.report.comparison import Comparison, Run
from maxatk.report.decision import Decision
from maxatk.report.paired_tests import PairedTest
from maxatk.report.problem_details import ProblemDetails
from maxatk.writing import without_lone_surrogates


def problem_data(
    comparison: Comparison, decisions: Sequence[Decision], details: Sequence[ProblemDetails]
) -> str:
    """Return the JSON that `problems.js` reads, fit to stand in a script element.

    "values" has the values of the problems by metric, run and k, "means" the mean and the ends of
    its interval, and "tests" the tests of all pairs of models by metric.
    """
    values = []
    means = []
    for metric in comparison.metrics:
        values.append([_values_by_k(run, metric, comparison.ks) for run in comparison.runs])
        means.append([_means_by_k(run, metric, comparison.ks) for run in comparison.runs])
    data = {
        # Half of a surrogate pair has no place in the address of a problem.
        "ids": list(map(without_lone_surrogates, comparison.baseline.results.ids)),
        "models": comparison.names,
        "ks": comparison.ks,
        "metrics": comparison.metrics,
        "values": values,
        "means": means,
        "tests": [
            [_test_row(test, comparison) for test in decision.tests] for decision in decisions
        ],
        "details": [problem.to_json() for problem in details],
    }
    # Nothing in a text may end the element, nor begin a comment in it.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _values_by_k(run: Run, metric: str, ks: Sequence[int]) -> list[list[float | None]]:
    columns = run.results.per_problem.values[metric]
    return [list(columns[k]) for k in ks]


def _means_by_k(run: Run, metric: str, ks: Sequence[int]) -> list[list[float | None]]:
    means = [run.metric(metric, k) for k in ks]
    return [[mean.mean, mean.low, mean.high] for mean in means]


def _test_row(test: PairedTest, comparison: Comparison) -> list[Any]:
    """Return a test as `problems.js` reads it, with models and k by their places."""
    return [
        comparison.names.index(test.first),
        comparison.names.index(test.second),
        comparison.ks.index(test.measure.k),
        test.difference,
        test.low,
        test.high,
        test.adjusted_p,
        test.mark,
        test.problems,
    ]
