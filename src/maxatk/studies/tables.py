"""The tables of a study, in the forms of the paper's and with every seed beside them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from maxatk.report.comparing import (
    row_of_test,
    score_rows,
    seeds_above,
    table_of_tests,
)
from maxatk.report.run_tables import every_k, samples_table, scores_table
from maxatk.report.runs import Run
from maxatk.report.tables import (
    Cell,
    Table,
    TableFormat,
    TidyRow,
    change,
    decimal,
    format_table,
    share,
    table_of,
)
from maxatk.studies.findings import TESTED_KS, TRAINING_COLUMNS, Study, selections
from maxatk.studies.recipe import split_levels

_SUFFIXES: dict[TableFormat, str] = {"md": "md", "csv": "csv", "latex": "tex"}


def study_tables(study: Study) -> dict[str, Table]:
    """Return the tables of a study by the name of their file.

    `scores` has the form of Tables 2 and 3 of the paper, `crossed` its means by the levels of two
    axes (absent where models have one), `max_at_k` and `pass_at_k` have the form of Tables 5 to 14,
    and so has `max_at_k_by_NAME` of every stored score that chooses;
    `differences` and `leaders` hold the tests over seeds, `pairs` those that the recipe asks for
    (absent if none), `seeds` the difference to the baseline seed by seed, `samples` what became of
    the samples and `training` what was logged.
    """
    stars = {test.measure: test.first for test in study.leaders if test.significant}
    tests = functools.partial(table_of_tests, over=study.over)
    pairs = {"pairs": tests("first − second", study.pairs)} if study.pairs else {}
    chosen = {
        re.sub(r"\W+", "_", metric.replace("@", "_at_")): metric
        for metric in selections(study.comparison)
    }
    two_axes = any(len(levels) > 1 for levels in study.levels.values())
    crossed = {"crossed": _crossed_table(study)} if two_axes else {}
    return {
        "scores": scores_table({"": study.comparison}, study.measures, stars),
        **crossed,
        "max_at_k": every_k(study.comparison, "max@k"),
        "pass_at_k": every_k(study.comparison, "pass@k"),
        **{name: every_k(study.comparison, metric) for name, metric in chosen.items()},
        "differences": tests("model − baseline", study.differences),
        "leaders": tests("best − second best", study.leaders),
        **pairs,
        "seeds": _seeds_table(study),
        "samples": samples_table(study.comparison),
        "training": _training_table(study),
    }


def write_tables(study: Study, folder: Path) -> None:
    """Write every table of a study as Markdown, CSV and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in study_tables(study).items():
        for table_format, suffix in _SUFFIXES.items():
            text = format_table(table, table_format)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def study_rows(study: Study) -> dict[str, list[TidyRow]]:
    """Return the rows of "scores", "differences", "leaders", "pairs" and "training".

    Scores and tests are as `score_rows` and `row_of_test` have them. A training has model, quantity
    and its mean. None is a number that does not exist.
    """
    return {
        "scores": score_rows({"": study.comparison}, study.measures),
        "differences": [row_of_test(test) for test in study.differences],
        "leaders": [row_of_test(test) for test in study.leaders],
        "pairs": [row_of_test(test) for test in study.pairs],
        "training": [
            {"model": name, "quantity": quantity, "mean": mean}
            for name, logged in study.training.items()
            for quantity, mean in logged.items()
        ],
    }


def _seeds_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested, of every seed less the baseline's."""
    tests = [test for test in study.differences if test.measure.metric == "max@k"]
    return table_of(
        {
            f"model − {study.comparison.baseline.name}": [test.first for test in tests],
            "metric": [test.measure.name for test in tests],
            **{
                f"seed {seed}": [_moved(test.by_seed[place]) for test in tests]
                for place, seed in enumerate(study.seeds)
            },
            "seeds above": [seeds_above(test) for test in tests],
        }
    )


def _moved(difference: float | None) -> Cell:
    mark = "" if not difference else "above" if difference > 0 else "below"
    return Cell(change(difference), mark=mark)


def _crossed_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    runs = {
        _place(levels): run for run in study.comparison.runs if (levels := study.levels[run.name])
    }
    firsts = dict.fromkeys(first for first, _ in runs)
    rows = [(first, k) for k in study.comparison.shown_ks(TESTED_KS) for first in firsts]
    columns = {
        across: [_mean(runs.get((first, across)), k) for first, k in rows]
        for _, across in runs
        if across
    }
    return table_of(
        {
            "model": [first for first, _ in rows],
            "metric": [f"max@{k}" for _, k in rows],
            **columns,
        }
    )


def _place(levels: Mapping[str, str]) -> tuple[str, str]:
    """Return the row and the column of a model, such as `updates=8`, "" with one axis."""
    first, others = split_levels(levels)
    return first, ",".join(f"{axis}={level}" for axis, level in others.items())


def _mean(run: Run | None, k: int) -> str:
    return share(None if run is None else run.metric("max@k", k).mean)


def _training_table(study: Study) -> Table:
    trained = [run for run in study.comparison.runs if study.training[run.name]]
    largest = study.comparison.shown_ks(TESTED_KS)[-1]
    logged = {key for run in trained for key in study.training[run.name]}
    columns = {
        heading: [decimal(study.training[run.name].get(key), digits) for run in trained]
        for key, heading, digits in TRAINING_COLUMNS
        if key in logged
    }
    return table_of(
        {
            "model": [run.name for run in trained],
            **columns,
            f"max@{largest}": [_mean(run, largest) for run in trained],
        }
    )
