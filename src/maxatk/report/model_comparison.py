"""Compare models over one benchmark or many: which is best at which k, and by what tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Literal

from maxatk.check import is_number, one_of, require, several
from maxatk.errors import InvalidValueError, counted
from maxatk.evaluation.budgets import read_budget, turns_of
from maxatk.evaluation.load import ResultsSource
from maxatk.evaluation.results import METRICS
from maxatk.notebook import data_frame, html_table
from maxatk.report.benchmarks import sources_by_benchmark
from maxatk.report.comparison import ALPHA, DEFAULT_KS, Comparison
from maxatk.report.comparison_tables import row_of_test, score_rows
from maxatk.report.decision import Decision, decide
from maxatk.report.load_runs import RUNS_BY_NAME, Reading, load_comparison
from maxatk.report.paired_tests import Measure, PairedTest
from maxatk.report.run_tables import scores_table
from maxatk.report.tables import TidyRow
from maxatk.statistics.significance import wilcoxon

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """The outcome of `compare`, by benchmark and, for its verdicts at every k, by metric.

    Of the tests at the `measures`, `leaders` are those of the best mean against every other model,
    `differences` those against the baseline.
    """

    comparisons: Mapping[str, Comparison]
    decisions: Mapping[tuple[str, str], Decision]
    measures: tuple[Measure, ...]
    leaders: tuple[PairedTest, ...]
    differences: tuple[PairedTest, ...]

    @property
    def names(self) -> list[str]:
        """The names of the models, the baseline first."""
        return next(iter(self.comparisons.values())).names

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of `score_rows`; raises MissingDependencyError without pandas."""
        return data_frame(score_rows(self.comparisons, self.measures))

    @property
    def verdict(self) -> str:
        """Which model for which N, in lines: of every benchmark and metric, with its test."""
        lines = []
        for (benchmark, metric), decision in self.decisions.items():
            lines.append(f"{benchmark} {metric}, {decision.comparison.test_name}:".strip())
            lines += [f"  {sentence}" for sentence in decision.sentences]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = scores_table(self.comparisons, self.measures, self.stars)
        rows = [[f"{cell.large} {cell.detail}" for cell in row] for row in table.rows]
        return f"<pre>{escape(self.verdict)}</pre>" + html_table(table.header, rows)

    @property
    def stars(self) -> dict[Measure, str]:
        """The models that are significantly above all others in a measure."""
        stars = {}
        for measure in self.measures:
            decision = self.decisions[measure.benchmark, measure.metric]
            best, *tied = decision.leaders[measure.k]
            if not tied:
                stars[measure] = best
        return stars


@dataclasses.dataclass(frozen=True)
class CompareOptions(Reading):
    """What is compared, beside how the runs are read.

    Args:
        metric: What to compare.
        alpha: Level of the false-discovery control, between 0 and 1.
        by: A field of the problems' meta; every value of it is compared on its own.
        budget: Budgets of turns, such as turns=1,2,4; each is compared on its own.
        allow_other_problems: Compare runs over different problems, on those they share.
        allow_other_verifiers: Compare runs whose verifiers had different limits.
    """

    metric: tuple[Literal["max@k", "pass@k"], ...] = ("max@k",)
    alpha: float = ALPHA
    by: str | None = None
    budget: str | None = None
    allow_other_problems: bool = False
    allow_other_verifiers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None:
            read_budget(self.budget)
            if self.by is not None or self.column is not None:
                raise InvalidValueError("budget: does not go with by or column; leave these out")
        is_level = is_number(self.alpha) and 0 < self.alpha < 1
        require(is_level, "alpha", "a number between 0 and 1", self.alpha)
        several("metric", self.metric, "metrics")
        for metric in self.metric:
            one_of("metric", metric, METRICS)


def compare(
    results: Mapping[str, ResultsSource], options: CompareOptions = CompareOptions()
) -> ModelComparison:
    """Compare models by name: results, their file or folder, or a file of rewards.

    A folder without results.json holds one folder a benchmark, the same for every model. Raises
    InvalidValueError for fewer than two models, different benchmarks, and a field `by` that no
    problem has; MissingFileError for a folder of neither; and as `load_comparison`.
    """
    require(isinstance(results, Mapping), "results", RUNS_BY_NAME, results)
    require(isinstance(options, CompareOptions), "options", "CompareOptions", options)
    if len(results) < 2:
        raise InvalidValueError(f"results: comparing needs two models or more, got {len(results)}")
    comparisons = _comparisons(results, options)
    decisions: dict[tuple[str, str], Decision] = {}
    measures: list[Measure] = []
    for benchmark, comparison in comparisons.items():
        for metric in options.metric:
            decisions[benchmark, metric] = decide(
                comparison, metric, benchmark=benchmark, alpha=options.alpha
            )
            for k in comparison.shown_ks(options.k or DEFAULT_KS):
                measures.append(Measure(benchmark, metric, k))
    leaders = []
    differences = []
    for decision in decisions.values():
        leaders += _at_measures(decision.against_best, measures, decision.comparison)
        differences += _at_measures(decision.against_baseline, measures, decision.comparison)
    return ModelComparison(
        comparisons, decisions, tuple(measures), tuple(leaders), tuple(differences)
    )


def _comparisons(
    results: Mapping[str, ResultsSource], options: CompareOptions
) -> dict[str, Comparison]:
    """Return the comparison of every benchmark, or of every budget of turns in it, by name."""
    comparisons = {}
    for benchmark, sources in sources_by_benchmark(results, options, by=options.by).items():
        for budget, reading in _readings(options).items():
            comparisons[f"{benchmark} {budget}".strip()] = load_comparison(
                sources,
                reading,
                allow_other_problems=options.allow_other_problems,
                allow_other_verifiers=options.allow_other_verifiers,
            )
    return comparisons


def _readings(options: CompareOptions) -> dict[str, Reading]:
    """Return how the runs are read for each budget, by its name; one without a name for none."""
    if options.budget is None:
        return {"": options}
    columns = read_budget(options.budget)
    return {
        f"within {counted(turns_of(column), 'turn')}": dataclasses.replace(
            options, budget=None, column=column
        )
        for column in columns
    }


def _at_measures(
    tests: Iterable[PairedTest], measures: Iterable[Measure], comparison: Comparison
) -> list[PairedTest]:
    """Return the tests of a comparison at these measures, with the p of the paper's test."""
    shown = []
    for test in tests:
        if test.measure not in measures:
            continue
        metric = test.measure.metric
        first = comparison.run(test.first).values(metric, [test.measure.k])[:, 0]
        second = comparison.run(test.second).values(metric, [test.measure.k])[:, 0]
        shown.append(dataclasses.replace(test, wilcoxon_p=wilcoxon(first, second)))
    return shown


def tidy_rows(compared: ModelComparison) -> dict[str, list[TidyRow]]:
    """Return the rows of the tables "scores", "leaders", "differences" and "verdict".

    "tied" are the models that the test does not tell from the best. None is a missing number.
    """
    return {
        "scores": score_rows(compared.comparisons, compared.measures),
        "leaders": list(map(row_of_test, compared.leaders)),
        "differences": list(map(row_of_test, compared.differences)),
        "verdict": _verdict_rows(compared.decisions),
    }


def _verdict_rows(decisions: Mapping[tuple[str, str], Decision]) -> list[TidyRow]:
    rows: list[TidyRow] = []
    for (benchmark, metric), decision in decisions.items():
        for k, (best, *tied) in decision.leaders.items():
            rows.append(
                {
                    **dataclasses.asdict(Measure(benchmark, metric, k)),
                    "test": decision.comparison.test_name,
                    "best": best,
                    "tied": "; ".join(tied),
                }
            )
    return rows
