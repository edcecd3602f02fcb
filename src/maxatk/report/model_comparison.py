"""Compare models over one benchmark or many, paired over problems, for people and for programs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from maxatk.errors import InvalidValueError, MissingFileError, unknown_name
from maxatk.evaluation.budgets import read_budget, turns_of
from maxatk.evaluation.folder import RESULTS
from maxatk.evaluation.load import ResultsSource
from maxatk.evaluation.problem_groups import results_by
from maxatk.evaluation.results import METRICS
from maxatk.notebook import data_frame, html_table
from maxatk.report import tables
from maxatk.report.comparison import (
    ALPHA,
    SPEAKS_OF,
    Comparison,
    Over,
    Reading,
    folder_of,
    load_comparison,
)
from maxatk.report.decision import Decision, decide
from maxatk.report.paired_tests import Measure, PairedTest
from maxatk.report.run_tables import scores_table
from maxatk.report.tables import Cell, Table, TidyRow, table_of
from maxatk.statistics.tests import FEWEST_SEEDS, smallest_sign_flip_p, wilcoxon

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_KS = (1, 128)


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
        rows = [[f"{cell.text} {cell.detail}" for cell in row] for row in table.rows]
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
        if self.budget is not None:
            read_budget(self.budget)
            if self.by is not None or self.column is not None:
                raise InvalidValueError("budget: does not go with by or column; leave these out")
        if not 0 < self.alpha < 1:
            raise InvalidValueError(f"alpha: must lie between 0 and 1, got {self.alpha!r}")
        for metric in self.metric:
            if metric not in METRICS:
                raise unknown_name("metric", metric, METRICS)


def compare(
    results: Mapping[str, ResultsSource], options: CompareOptions = CompareOptions()
) -> ModelComparison:
    """Compare models by name: results, their file or folder, or a file of rewards.

    A folder without results.json holds one folder a benchmark, the same for every model. Raises
    InvalidValueError for fewer than two models, different benchmarks, and a field `by` that no
    problem has; MissingFileError for a folder of neither; and as `load_comparison`.
    """
    if len(results) < 2:
        raise InvalidValueError(f"results: comparing needs two models or more, got {len(results)}")
    comparisons = {
        f"{benchmark} {part}".strip(): load_comparison(
            sources,
            reading,
            allow_other_problems=options.allow_other_problems,
            allow_other_verifiers=options.allow_other_verifiers,
        )
        for benchmark, sources in _sources(results, options).items()
        for part, reading in _readings(options).items()
    }
    decisions = {
        (benchmark, str(metric)): decide(
            comparison, metric, benchmark=benchmark, alpha=options.alpha
        )
        for benchmark, comparison in comparisons.items()
        for metric in options.metric
    }
    measures = tuple(
        Measure(benchmark, metric, k)
        for benchmark, metric in decisions
        for k in comparisons[benchmark].shown_ks(options.k or DEFAULT_KS)
    )
    leaders = [test for decision in decisions.values() for test in decision.against_best]
    differences = [test for decision in decisions.values() for test in decision.against_baseline]
    return ModelComparison(
        comparisons,
        decisions,
        measures,
        leaders=_shown(leaders, measures, comparisons),
        differences=_shown(differences, measures, comparisons),
    )


def _readings(options: CompareOptions) -> dict[str, Reading]:
    """Return how the runs are read for each budget, by its name; one without a name for none."""
    if options.budget is None:
        return {"": options}
    columns = read_budget(options.budget)
    return {
        f"within {turns_of(column)} turns": dataclasses.replace(options, budget=None, column=column)
        for column in columns
    }


def _shown(
    tests: Iterable[PairedTest],
    measures: Sequence[Measure],
    comparisons: Mapping[str, Comparison],
) -> tuple[PairedTest, ...]:
    """Return the tests at these measures, with the p of the paper's test beside ours."""
    shown = []
    for test in tests:
        measure = test.measure
        if measure not in measures:
            continue
        comparison = comparisons[measure.benchmark]
        first, second = [
            comparison.run(name).values(measure.metric, [measure.k])[:, 0]
            for name in (test.first, test.second)
        ]
        shown.append(dataclasses.replace(test, wilcoxon_p=wilcoxon(first, second)))
    return tuple(shown)


def _sources(
    results: Mapping[str, ResultsSource], options: CompareOptions
) -> dict[str, dict[str, ResultsSource]]:
    """Return the results by model of every benchmark, or of every value of a field in each."""
    by_model = {name: _benchmarks(source) for name, source in results.items()}
    first = next(iter(by_model))
    benchmarks = by_model[first]
    for name, of_model in by_model.items():
        if of_model.keys() != benchmarks.keys():
            raise InvalidValueError(
                f"results: {first!r} has the benchmarks {sorted(benchmarks)}, {name!r} has "
                f"{sorted(of_model)}; every model needs the same"
            )
    sources: dict[str, dict[str, ResultsSource]] = {}
    for benchmark, (name, of_model) in itertools.product(benchmarks, by_model.items()):
        for group, source in _groups(benchmark, of_model[benchmark], options).items():
            sources.setdefault(group, {})[name] = source
    for group, models in sources.items():
        missing = [name for name in results if name not in models]
        if missing:
            raise InvalidValueError(f"by: {missing[0]!r} has no problem with {group}")
    return sources


def _groups(
    benchmark: str, source: ResultsSource, options: CompareOptions
) -> dict[str, ResultsSource]:
    """Return the results of one benchmark, or of every value of the field `by` in it."""
    if options.by is None:
        return {benchmark: source}
    by_value = results_by(options.results_of(source), options.by)
    return {
        f"{benchmark} {options.by}={value}".strip(): results for value, results in by_value.items()
    }


def _benchmarks(source: ResultsSource) -> dict[str, ResultsSource]:
    """Return the results of every benchmark of a model; the only one is named ""."""
    folder = folder_of(source)
    if folder is None or (folder / RESULTS).is_file():
        return {"": source}
    inner: dict[str, ResultsSource] = {}
    for path in sorted(folder.glob(f"*/{RESULTS}")):
        inner[path.parent.name] = path.parent
    if not inner:
        raise MissingFileError(f"{folder}: holds no {RESULTS}, and no folders of benchmarks")
    return inner


def table_of_tests(heading: str, tests: Sequence[PairedTest], *, over: Over = "problems") -> Table:
    """Return one row a test, starred where significant; `heading` says what is less what."""
    seeds = len(tests[0].by_seed)
    columns: dict[str, list[Cell | str]] = {
        heading: [f"{test.first} − {test.second}" for test in tests],
        "metric": [test.measure.name for test in tests],
        "difference": [
            Cell(tables.change(test.difference) + tables.STAR * test.significant, mark=test.mark)
            for test in tests
        ],
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


def tidy_rows(compared: ModelComparison) -> dict[str, list[TidyRow]]:
    """Return the rows of the tables "scores", "leaders", "differences" and "verdict".

    "tied" are the models that the test does not tell from the best. None is a missing number.
    """
    verdict: list[TidyRow] = []
    for (benchmark, metric), decision in compared.decisions.items():
        for k, (best, *tied) in decision.leaders.items():
            verdict.append(
                {
                    **dataclasses.asdict(Measure(benchmark, metric, k)),
                    "test": decision.comparison.test_name,
                    "best": best,
                    "tied": " ".join(tied),
                }
            )
    return {
        "scores": score_rows(compared.comparisons, compared.measures),
        "leaders": list(map(row_of_test, compared.leaders)),
        "differences": list(map(row_of_test, compared.differences)),
        "verdict": verdict,
    }


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
