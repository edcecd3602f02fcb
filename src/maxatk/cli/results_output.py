"""What commands print of evaluations: metrics, samples and outcomes of one or more runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxatk.cli.output import Output, OutputFormat, emit, say_aside
from maxatk.evaluation.load import ResultsSource, load_results
from maxatk.evaluation.problem_groups import results_by
from maxatk.evaluation.recipe import RunRecipe
from maxatk.evaluation.results import MOST_CUT_OFF, Results
from maxatk.report import outcomes_table, overview_table
from maxatk.report.run_tables import KS, groups_table
from maxatk.report.tables import TidyRow, intervals_note


def results_output(
    results: Mapping[str, ResultsSource], *, ks: Sequence[int] = (), by: str | None = None
) -> dict[str, Output]:
    """Return the tables "metrics", "by", "samples" and "outcomes" of one or more runs.

    People see max@k and pass@k with 95% intervals and, with `by`, a row for each value of that
    field of `meta`. Without the `ks` to show the text has those of the report, the rows all.
    """
    loaded = {name: load_results(source, ks=ks) for name, source in results.items()}
    metrics: list[TidyRow] = []
    samples: list[TidyRow] = []
    outcomes: list[TidyRow] = []
    for name, run_results in loaded.items():
        metrics += metric_rows(run_results, ks, {"model": name})
        samples.append(_sample_row(name, run_results))
        for outcome, count in run_results.counts.outcomes.items():
            outcomes.append({"model": name, "outcome": outcome, "samples": count})
    most_problems = max(len(run_results.ids) for run_results in loaded.values())
    overview = overview_table(loaded, ks=ks)
    tables = {"metrics": Output(metrics, overview, intervals_note(most_problems))}
    if by is not None:
        tables["by"] = _by_field(loaded, by, ks)
    tables["samples"] = Output(samples)
    tables["outcomes"] = Output(outcomes)
    return tables


def _by_field(loaded: Mapping[str, Results], by: str, ks: Sequence[int]) -> Output:
    """Return the metrics of the problems with each value of a field of `meta`."""
    rows: list[TidyRow] = []
    parts: dict[str, Results] = {}
    for name, result in loaded.items():
        for value, part in results_by(result, by).items():
            rows += metric_rows(part, ks, {"model": name, "field": by, "value": value})
            heading = f"{value} ({len(part.ids)})"
            parts[f"{name} {heading}" if len(loaded) > 1 else heading] = part
    note = f"95% intervals over the problems of a {by}"
    return Output(rows, groups_table(parts, heading=f"{by} (problems)", ks=ks or KS), note)


def _sample_row(name: str, result: Results) -> TidyRow:
    """Return how many samples a run has, and what became of those without a reward."""
    return {
        "model": name,
        "problems": result.counts.problems,
        "samples": result.counts.samples,
        **result.counts.row,
        "cut_off": result.cut_off,
        "reasons": "; ".join(result.counts.reasons),
    }


def metric_rows(
    results: Results, ks: Sequence[int], about: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield `about`, metric, k, mean with 95% interval and what it rests on, of every metric and k.

    `unscored` and `zeroed` count the run's samples without a reward, and with 0 in its place.
    """
    for metric, by_k in results.metrics.items():
        for k in ks or by_k:
            if k not in by_k:
                continue  # a retry needs 2k samples
            mean = by_k[k]
            yield {
                **about,
                "metric": metric,
                "k": k,
                "mean": mean.mean,
                "low": mean.low,
                "high": mean.high,
                "problems": mean.problems,
                **results.counts.row,
            }


def print_results(
    recipe: RunRecipe,
    results: Results,
    output_format: OutputFormat,
    *,
    with_outcomes: bool = False,
    text: str = "",
) -> None:
    """Print the tables of one run, and warn where so many samples were cut off that they mislead.

    `with_outcomes` shows people how many samples had each outcome. `text` follows the tables.
    """
    name = recipe.folder.name
    cut_off = results.cut_off
    tables = results_output({name: results}, ks=recipe.k, by=recipe.by)
    if with_outcomes:
        title = "samples by their first outcome that is not a pass"
        tables["outcomes"] = Output(tables["outcomes"].rows, outcomes_table(results), title)
    lines = [f"{name}: {remark}" for remark in results.remarks]
    if cut_off is not None:
        lines.append(f"{name}: {cut_off:.1%} of the samples cut off by max_new_tokens")
    if text:
        lines.append(text)
    emit(tables, output_format, text="\n".join(lines))
    if cut_off is not None and cut_off > MOST_CUT_OFF:
        say_aside(
            f"warning: {name}: {cut_off:.0%} of the samples were cut off before their end, so that "
            "the metrics say more about sampling.max_new_tokens than about the model"
        )
