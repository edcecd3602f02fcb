"""The command `compare`: which of several models is better, on the same problems."""

from __future__ import annotations

import itertools
import sys
from typing import Annotated, Literal

import tyro

from maxatk.cli.paths import named_paths
from maxatk.cli.tables import print_json, print_table
from maxatk.report import Table, compare, format_table
from maxatk.report.comparing import ModelComparison
from maxatk.report.comparing_tables import differences_table, leaders_table, scores_table
from maxatk.report.deciding import sentences
from maxatk.report.runs import setting_differences
from maxatk.report.tidy import as_csv, tidy_rows
from maxatk.report.truncation import cut_off_warnings
from maxatk.report.unscored import unscored_warnings


def command(
    models: Annotated[tuple[str, ...], tyro.conf.Positional],
    /,
    metric: tuple[Literal["max@k", "pass@k"], ...] = ("max@k",),
    k: tuple[int, ...] = (),
    baseline: str | None = None,
    alpha: float = 0.05,
    threshold: float | None = None,
    column: str | None = None,
    by: str | None = None,
    format: Literal["text", "md", "csv", "json", "latex"] = "text",
    table: Literal["all", "verdict", "scores", "leaders", "differences"] = "all",
    allow_other_problems: bool = False,
    allow_other_verifiers: bool = False,
) -> None:
    """Compare evaluated models, paired over their problems.

    First the verdict in words, which model for which N, as on the page of `report`. Then three
    tables: the scores, with the best and second best of a column marked and a star where the best
    is significantly above all others; the tests behind the stars; and every model against the
    baseline. The test is that of the mean difference over problems (bootstrap, Student's t below 30
    problems), corrected over all k and models (Benjamini-Hochberg). Settings in which the runs
    differ, other than the model, are noted on standard error, and so are samples that are not
    missing at random.

    Example: maxatk compare base=runs/base tuned=runs/tuned --k 1 128 --format md

    Args:
        models: Folders written by eval or score, folders of those, one a benchmark, or files of
            rewards (.csv, .jsonl, .parquet); name=folder gives a model a name.
        metric: What to compare.
        k: At which k, from 1 to the samples of a problem; 1 and the largest up to 128 that all
            have, if none is given.
        baseline: The model the others are compared to; "base", else the first.
        alpha: Level of the false-discovery control, between 0 and 1.
        threshold: The reward from which a sample passes; the run's own, or 1.
        column: A column of the scores to take for the reward.
        by: A field of the problems' meta; every value of it is compared on its own.
        format: How the tables are written; csv and json have one number a field, csv one table.
        table: Print only this one; csv prints the scores if none is named, and the verdict is
            printed as text, csv and json.
        allow_other_problems: Compare runs over different problems, on those they share.
        allow_other_verifiers: Compare runs whose verifiers had different limits.
    """
    compared = compare(
        dict(named_paths(models)),
        metrics=metric,
        ks=k or None,
        baseline=baseline,
        alpha=alpha,
        threshold=threshold,
        column=column,
        by=by,
        allow_other_problems=allow_other_problems,
        allow_other_verifiers=allow_other_verifiers,
    )
    for benchmark, comparison in compared.comparisons.items():
        notes = (setting_differences, unscored_warnings, cut_off_warnings)
        for line in itertools.chain.from_iterable(note(comparison) for note in notes):
            place = f"{benchmark}: " if benchmark else ""
            print(f"note: {place}{line}", file=sys.stderr)  # noqa: T201
    if format == "csv" or format == "json":
        rows = tidy_rows(compared)
        chosen = rows if table == "all" else {str(table): rows[table]}
        if format == "json":
            print_json(chosen)
        else:  # a file of CSV holds one table: the scores, unless asked
            print(as_csv(next(iter(chosen.values()))), end="")  # noqa: T201
        return
    if format == "text" and table in ("all", "verdict"):
        print(_verdict(compared))  # noqa: T201
    tables = [shown for name, shown in _tables(compared).items() if table in ("all", name)]
    for number, (shown, title) in enumerate(tables):
        if format == "text":
            print_table(shown, title=title)
        else:
            print(("\n" if number else "") + format_table(shown, format), end="")  # noqa: T201


def _verdict(compared: ModelComparison) -> str:
    lines = []
    for (benchmark, metric), decision in compared.decisions.items():
        lines.append(f"{benchmark} {metric}, {decision.test}:".strip())
        lines += [f"  {sentence}" for sentence in sentences(decision)]
    return "\n".join(lines)


def _tables(compared: ModelComparison) -> dict[str, tuple[Table, str]]:
    level = f"at most {compared.alpha:g}"
    return {
        "scores": (
            scores_table(compared),
            "95% intervals over problems; * above all others, adjusted p " + level,
        ),
        "leaders": (leaders_table(compared), f"* adjusted p {level}"),
        "differences": (
            differences_table(compared),
            f"against {compared.names[0]}; * adjusted p {level}",
        ),
    }
