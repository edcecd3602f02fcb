"""The tables of a study's findings, for people and for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from maxatk.evaluation.results import METRICS
from maxatk.report import tables
from maxatk.report.comparison_tables import row_of_test, score_rows, table_of_tests
from maxatk.report.paired_tests import Measure, PairedTest
from maxatk.report.run_tables import every_k, samples_table, scores_table
from maxatk.report.table_formats import TableFormat, format_table
from maxatk.report.tables import Cell, Table, TidyRow, table_of
from maxatk.studies import findings
from maxatk.studies.findings import Study
from maxatk.studies.front import Estimate, Front
from maxatk.writing import write_text

_SUFFIXES: dict[TableFormat, str] = {"md": "md", "csv": "csv", "latex": "tex"}
_TESTS = {
    "differences": "model − baseline",
    "leaders": "best − second best",
    "pairs": "first − second",
}
_NOT_ALWAYS = ("crossed", *_TESTS, "front", "beyond")  # tables that a study may lack
_BY_SCORE = "max_at_k_by_"  # the start of the name of a table that it may lack too


def study_tables(study: Study) -> dict[str, Table]:
    """Return the tables of a study by the name of their file.

    `scores` has the form of Tables 2 and 3 of the paper, `max_at_k`, `pass_at_k` and
    `max_at_k_by_NAME` of every stored score that chooses that of Tables 5 to 14.
    """
    comparison = study.comparison
    stars = {test.measure: test.first for test in study.leaders if test.mark == "above"}
    made = {"scores": scores_table({"": comparison}, study.measures, stars)}
    for metric in (*METRICS, *comparison.selections):
        made[re.sub(r"\W+", "_", metric.replace("@", "_at_"))] = every_k(comparison, metric)
    made["samples"] = samples_table(comparison)
    crossed = _crossed_table(study)
    if crossed is not None:
        made["crossed"] = crossed
    made["training"] = _training_table(study)
    made["seeds"] = _seeds_table(study)
    for name, heading in _TESTS.items():
        tests = _tests_of(study, name)
        if tests:
            made[name] = table_of_tests(heading, tests, over=study.over)
    if study.front is not None:
        made["front"] = _front_table(study.front)
        made["beyond"] = _beyond_table(study.front)
    return made


def write_tables(study: Study, folder: Path) -> None:
    """Write every table of a study as Markdown, CSV and LaTeX.

    Those that the study has no more, since it was written with other settings, are removed.
    """
    tables_now = study_tables(study)
    by_scores = [path.stem for path in folder.glob(f"{_BY_SCORE}*.md")]
    for name in (*_NOT_ALWAYS, *by_scores):
        if name not in tables_now:
            for suffix in _SUFFIXES.values():
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    for name, table in tables_now.items():
        for table_format, suffix in _SUFFIXES.items():
            text = format_table(table, table_format)
            write_text(folder / f"{name}.{suffix}", text)


def study_rows(study: Study) -> dict[str, list[TidyRow]]:
    """Return the rows of "scores", of the lists of tests, and of "training"; None is no number."""
    rows = {"scores": score_rows({"": study.comparison}, study.measures)}
    for name in _TESTS:
        rows[name] = [row_of_test(test) for test in _tests_of(study, name)]
    if study.front is not None:
        rows["front"] = [
            {
                "method": best.method,
                "aim": best.aim,
                "model": best.model,
                **msgspec.to_builtins(estimate),
            }
            for best in study.front.best
            for estimate in best.estimates
        ]
        rows["beyond"] = [msgspec.to_builtins(test) for test in study.front.beyond]
    rows["training"] = [
        {"model": name, "quantity": quantity, "mean": mean}
        for name, model in study.models.items()
        for quantity, mean in model["training"].items()
    ]
    return rows


def _front_table(front: Front) -> Table:
    """Return every method at its best for each N, with the model that all seeds choose for it."""
    columns: dict[str, list[Cell | str]] = {
        "method": [best.method for best in front.best],
        "best for N": [str(best.aim) for best in front.best],
        "model": [best.model for best in front.best],
    }
    for position, estimate in enumerate(front.best[0].estimates):
        columns[f"max@{estimate.k}"] = [
            _estimate_cell(best.estimates[position]) for best in front.best
        ]
    return table_of(columns)


def _estimate_cell(estimate: Estimate) -> Cell:
    detail = tables.interval(estimate.low, estimate.high)
    return Cell(tables.three_decimals(estimate.mean), detail)


def _beyond_table(front: Front) -> Table:
    """Return what the methods that are no rivals have more at each N above floors of max@1."""
    return table_of(
        {
            "N": [str(test.aim) for test in front.beyond],
            "max@1 at least": [tables.three_decimals(test.floor) for test in front.beyond],
            "model": [test.model for test in front.beyond],
            "its max@1": [tables.three_decimals(test.first) for test in front.beyond],
            "rival": [test.rival for test in front.beyond],
            "the rival's max@1": [tables.three_decimals(test.rival_first) for test in front.beyond],
            "difference in max@N": [
                Cell(tables.change(test.difference), tables.change_interval(test.low, test.high))
                for test in front.beyond
            ],
            "p": [tables.p_value(test.p) for test in front.beyond],
            "adjusted p": [tables.p_value(test.adjusted_p) for test in front.beyond],
        }
    )


def _tests_of(study: Study, name: str) -> tuple[PairedTest, ...]:
    lists = {
        "differences": study.differences,
        "leaders": study.leaders,
        "pairs": study.pairs,
    }
    return lists[name]


def _max_measures(study: Study) -> list[Measure]:
    """Return max@1 and max@k, k the largest tested."""
    return [measure for measure in study.measures if measure.metric == "max@k"]


def _mean_text(study: Study, model: str, measure: Measure) -> str:
    return tables.three_decimals(study.comparison.run(model).metric(measure.metric, measure.k).mean)


def _seeds_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested, of every seed less the baseline's."""
    tests = [test for test in study.differences if test.measure.metric == "max@k"]
    columns: dict[str, list[Cell | str]] = {
        f"model − {study.comparison.baseline.name}": [test.first for test in tests],
        "metric": [test.measure.name for test in tests],
    }
    for position, seed in enumerate(study.seeds):
        columns[f"seed {seed}"] = [_moved_cell(test.by_seed[position]) for test in tests]
    columns["seeds above"] = [f"{test.above} of {len(study.seeds)}" for test in tests]
    return table_of(columns)


def _moved_cell(difference: float | None) -> Cell:
    mark = ""
    if difference:
        mark = "above" if difference > 0 else "below"
    return Cell(tables.change(difference), mark=mark)


def _crossed_table(study: Study) -> Table | None:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    names: dict[tuple[str, str], str] = {}  # of the models, by the row and the column they are in
    for name, model in study.models.items():
        if model["levels"]:
            names[_place_of(model["levels"])] = name
    down = list(dict.fromkeys(first for first, _ in names))
    across = list(dict.fromkeys(others for _, others in names if others))
    if not across:
        return None
    rows = [(first, measure) for measure in _max_measures(study) for first in down]
    columns: dict[str, list[Cell | str]] = {
        "model": [first for first, _ in rows],
        "metric": [measure.name for _, measure in rows],
    }
    for others in across:
        cells: list[Cell | str] = []
        for first, measure in rows:
            model_name = names.get((first, others))
            cells.append("–" if model_name is None else _mean_text(study, model_name, measure))
        columns[others] = cells
    return table_of(columns)


def _place_of(levels: Mapping[str, str]) -> tuple[str, str]:
    """Return the row and the column of a model: its first level, and the others with their axes."""
    (_, first), *other_levels = levels.items()
    return first, ",".join(f"{axis}={level}" for axis, level in other_levels)


def _training_table(study: Study) -> Table:
    trained: Mapping[str, Mapping[str, float]] = {
        name: model["training"] for name, model in study.models.items() if model["training"]
    }
    columns: dict[str, list[Cell | str]] = {"model": list(trained)}
    for key, heading, digits in findings.TRAINING_COLUMNS:
        if any(key in logged for logged in trained.values()):
            numbers = [logged.get(key) for logged in trained.values()]
            columns[heading] = [tables.decimal(number, digits) for number in numbers]
    largest = _max_measures(study)[-1]
    columns[largest.name] = [_mean_text(study, name, largest) for name in trained]
    return table_of(columns)
