"""The tables of a study, in the forms of the paper's and with every seed beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from maxatk.evaluation.statistics.seeds import smallest_sign_flip_p
from maxatk.report.cells import Cell, Column, Table, number_column, tabulate, text_column
from maxatk.report.comparing_tables import difference_cell, starred_scores
from maxatk.report.formats import TableFormat, format_table
from maxatk.report.numbers import change, change_interval, p_value, share
from maxatk.report.run_tables import every_k, samples_table
from maxatk.report.runs import Run
from maxatk.studies.findings import (
    TESTED_KS,
    TRAINING_COLUMNS,
    Study,
    selections,
    split_levels,
)
from maxatk.studies.seed_tests import SeedTest

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
    pairs = {"pairs": _tests_table("first − second", study.pairs)} if study.pairs else {}
    chosen = selections(study.comparison)
    crossed = {"crossed": _crossed_table(study)} if _has_two_axes(study) else {}
    return {
        "scores": starred_scores({"": study.comparison}, study.measures, stars),
        **crossed,
        "max_at_k": every_k(study.comparison, "max@k"),
        "pass_at_k": every_k(study.comparison, "pass@k"),
        **{_file_name(name): every_k(study.comparison, name) for name in chosen},
        "differences": _tests_table("model − baseline", study.differences),
        "leaders": _tests_table("best − second best", study.leaders),
        **pairs,
        "seeds": _seeds_table(study),
        "samples": samples_table(study.comparison),
        "training": _training_table(study),
    }


def _file_name(metric: str) -> str:
    """Return `max_at_k_by_visible_tests` for "max@k by visible_tests"."""
    return re.sub(r"\W+", "_", metric.replace("@", "_at_"))


def write_tables(study: Study, folder: Path) -> None:
    """Write every table of a study as Markdown, CSV and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in study_tables(study).items():
        for table_format, suffix in _SUFFIXES.items():
            text = format_table(table, table_format)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def _tests_table(heading: str, tests: Sequence[SeedTest]) -> Table:
    """Return one row a test; `heading` says what is subtracted from what.

    The test and its interval are over seeds, sign flips stand beside them with the smallest p that
    so many seeds can give, and last the interval over the prompts of these seeds.
    """
    smallest = smallest_sign_flip_p(len(tests[0].over_seeds.by_seed))
    columns: list[Column[SeedTest]] = [
        text_column(heading, lambda test: f"{test.first} − {test.second}"),
        text_column("metric", lambda test: test.measure.name),
        Column(
            "difference",
            lambda test: difference_cell(test.over_seeds.mean, significant=test.significant),
        ),
        text_column("95% over seeds", _interval_over_seeds),
        text_column("p", lambda test: p_value(test.over_seeds.p)),
        text_column("adjusted p", lambda test: p_value(test.adjusted_p)),
        text_column(
            f"sign flips, p (at best {smallest:.3g})",
            lambda test: p_value(test.over_seeds.sign_flip_p),
        ),
        text_column("seeds above", _seeds_above),
        text_column(
            "95% over prompts, these seeds",
            lambda test: change_interval(test.prompts_low, test.prompts_high),
        ),
    ]
    return tabulate(columns, tests)


def _interval_over_seeds(test: SeedTest) -> str:
    low, high = test.over_seeds.low, test.over_seeds.high
    return "–" if low is None or high is None else change_interval(low, high)


def _seeds_above(test: SeedTest) -> str:
    return f"{test.over_seeds.above} of {len(test.over_seeds.by_seed)}"


def _seeds_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested, of every seed less the baseline's."""
    columns: list[Column[SeedTest]] = [
        text_column(f"model − {study.comparison.baseline.name}", lambda test: test.first),
        text_column("metric", lambda test: test.measure.name),
        *(_seed_column(f"seed {seed}", place) for place, seed in enumerate(study.seeds)),
        text_column("seeds above", _seeds_above),
    ]
    tests = [test for test in study.differences if test.measure.metric == "max@k"]
    return tabulate(columns, tests)


def _seed_column(heading: str, place: int) -> Column[SeedTest]:
    def cell(test: SeedTest) -> Cell:
        moved = test.over_seeds.by_seed[place]
        return Cell(change(moved), mark="above" if moved > 0 else "below" if moved < 0 else "")

    return Column(heading, cell)


def _has_two_axes(study: Study) -> bool:
    return any(len(levels) > 1 for levels in study.levels.values())


def _crossed_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    runs = {
        _place(levels): run for run in study.comparison.runs if (levels := study.levels[run.name])
    }

    def mean_column(across: str) -> Column[tuple[str, int]]:
        return text_column(across, lambda row: _mean(runs.get((row[0], across)), row[1]))

    columns: list[Column[tuple[str, int]]] = [
        text_column("model", lambda row: row[0]),
        text_column("metric", lambda row: f"max@{row[1]}"),
        *(mean_column(name) for name in dict.fromkeys(name for _, name in runs) if name),
    ]
    firsts = dict.fromkeys(first for first, _ in runs)
    rows = [(first, k) for k in study.comparison.shown_ks(TESTED_KS) for first in firsts]
    return tabulate(columns, rows)


def _place(levels: Mapping[str, str]) -> tuple[str, str]:
    """Return the row and the column of a model, such as `updates=8`, "" with one axis."""
    first, others = split_levels(levels)
    return first, ",".join(f"{axis}={level}" for axis, level in others.items())


def _mean(run: Run | None, k: int) -> str:
    return share(None if run is None else run.metric("max@k", k)["mean"])


def _training_table(study: Study) -> Table:
    trained = [run for run in study.comparison.runs if study.training[run.name]]
    largest = study.comparison.shown_ks(TESTED_KS)[-1]

    def logged_column(key: str, heading: str, digits: int) -> Column[Run]:
        return number_column(heading, lambda run: study.training[run.name].get(key), digits=digits)

    logged = {key for run in trained for key in study.training[run.name]}
    columns: list[Column[Run]] = [
        text_column("model", lambda run: run.name),
        *(logged_column(*entry) for entry in TRAINING_COLUMNS if entry[0] in logged),
        text_column(f"max@{largest}", lambda run: _mean(run, largest)),
    ]
    return tabulate(columns, trained)
