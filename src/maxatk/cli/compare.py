"""The command `compare`: which of several models is better, on the same problems."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from maxatk.cli.flags import MapFlag, named_sources
from maxatk.cli.output import Output, OutputFormat, emit, say_aside
from maxatk.errors import printable
from maxatk.report.comparison_tables import table_of_tests
from maxatk.report.model_comparison import CompareOptions, compare, tidy_rows
from maxatk.report.notices import notices, selection_lines
from maxatk.report.run_tables import scores_table


def command(
    models: Annotated[tuple[str, ...], tyro.conf.Positional],
    /,
    options: Annotated[CompareOptions, tyro.conf.arg(name="")] = CompareOptions(),  # noqa: B008
    map: MapFlag = (),
    format: OutputFormat = "text",
    table: Literal["all", "verdict", "scores", "leaders", "differences"] = "all",
) -> None:
    """Compare evaluated models, paired over their problems.

    First the verdict in words, which model for which N. Then three tables: the scores, with the
    best and second best of a column marked and a star where the best is significantly above all
    others; the tests behind the stars; and every model against the baseline. The test is the paired
    t-test over problems, corrected over all k and pairs of models (Benjamini-Hochberg). Settings in
    which the runs differ and samples without a reward are noted on standard error.

    Example: maxatk compare base=runs/base tuned=runs/tuned --k 1 128 --format md

    Args:
        models: Folders written by eval or score, folders of those, one a benchmark, or files of
            rewards (.csv, .jsonl, .parquet); name=folder gives a model a name.
        options: What is compared.
        table: Print only this one (the verdict as text, csv or json); csv has the scores otherwise.
    """
    compared = compare(named_sources(models, map, options), options)
    for benchmark, comparison in compared.comparisons.items():
        before = f"note: {benchmark}: " if benchmark else "note: "
        lines = selection_lines(comparison)
        for notice in notices(comparison):
            lines += notice.lines
        for line in lines:
            say_aside(before + line)
    if format == "text" and table in ("all", "verdict"):
        print(printable(compared.verdict))
    level = f"adjusted p at most {options.alpha:g}"
    scores = scores_table(compared.comparisons, compared.measures, compared.stars)
    leaders = table_of_tests("best − other", compared.leaders)
    differences = table_of_tests("model − baseline", compared.differences)
    rows = tidy_rows(compared)
    outputs = {
        "scores": Output(
            rows["scores"], scores, f"95% intervals over problems; * above all others, {level}"
        ),
        "leaders": Output(rows["leaders"], leaders, f"* {level}"),
        "differences": Output(
            rows["differences"], differences, f"against {compared.names[0]}; * {level}"
        ),
        "verdict": Output(rows["verdict"]),
    }
    if format != "json" and table == "all" and len(compared.names) == 2:
        del outputs["leaders"]  # it would repeat the one difference
    emit({name: outputs[name] for name in outputs if table in ("all", name)}, format)
