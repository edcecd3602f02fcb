"""The tables of a study, in the forms of the paper's and with every seed beside them."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from maxatk.report.comparing import (
    row_of_test,
    score_rows,
    seeds_above,
    table_of_tests,
)
from maxatk.report.run_tables import every_k, samples_table, scores_table
from maxatk.report.runs import METRICS, Run
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
    and so has `max_at_k_by_NAME` of every stored score that chooses; `differences` and `leaders`
    hold the tests over seeds, `pairs` those that the recipe asks for (absent if none), `seeds` the
    difference to the baseline seed by seed, `samples` what became of the samples and `training`
    what was logged.
    """
    comparison, crossed = study.comparison, _crossed_table(study)
    stars = {test.measure: test.first for test in study.leaders if test.significant}
    tests = functools.partial(table_of_tests, over=study.over)
    every = {
        re.sub(r"\W+", "_", metric.replace("@", "_at_")): every_k(comparison, metric)
        for metric in (*METRICS, *selections(comparison))
    }
    return {
        "scores": scores_table({"": comparison}, study.measures, stars),
        **({"crossed": crossed} if crossed is not None else {}),
        **every,
        "differences": tests("model − baseline", study.differences),
        "leaders": tests("best − second best", study.leaders),
        **({"pairs": tests("first − second", study.pairs)} if study.pairs else {}),
        "seeds": _seeds_table(study),
        "samples": samples_table(comparison),
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
        "differences": list(map(row_of_test, study.differences)),
        "leaders": list(map(row_of_test, study.leaders)),
        "pairs": list(map(row_of_test, study.pairs)),
        "training": [
            {"model": name, "quantity": quantity, "mean": mean}
            for name, model in study.models.items()
            for quantity, mean in model["training"].items()
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


def _crossed_table(study: Study) -> Table | None:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    runs: dict[tuple[str, str], Run] = {}
    for run in study.comparison.runs:
        if levels := study.models[run.name]["levels"]:
            first, others = split_levels(levels)
            runs[first, ",".join(f"{axis}={level}" for axis, level in others.items())] = run
    across = dict.fromkeys(others for _, others in runs if others)
    if not across:
        return None
    firsts = dict.fromkeys(first for first, _ in runs)
    rows = [(first, k) for k in study.comparison.shown_ks(TESTED_KS) for first in firsts]
    return table_of(
        {
            "model": [first for first, _ in rows],
            "metric": [f"max@{k}" for _, k in rows],
            **{o: [_mean(runs.get((first, o)), k) for first, k in rows] for o in across},
        }
    )


def _mean(run: Run | None, k: int) -> str:
    return share(None if run is None else run.metric("max@k", k).mean)


def _training_table(study: Study) -> Table:
    trained = {name: model["training"] for name, model in study.models.items() if model["training"]}
    largest = study.comparison.shown_ks(TESTED_KS)[-1]
    return table_of(
        {
            "model": trained,
            **{
                heading: [decimal(logged.get(key), digits) for logged in trained.values()]
                for key, heading, digits in TRAINING_COLUMNS
                if any(key in logged for logged in trained.values())
            },
            f"max@{largest}": [_mean(study.comparison.run(name), largest) for name in trained],
        }
    )
