"""The tables of a study, in the forms of the paper's and with every seed beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from maxatk.report.compare_tables import (
    differences_table,
    leaders_table,
    scores_table,
    tests_table,
)
from maxatk.report.formats import TableFormat, format_table
from maxatk.report.numbers import change, share
from maxatk.report.runs import Run
from maxatk.report.tables import Cell, Table, every_k, samples_table
from maxatk.studies.study import GRADIENT_SPIKES, TESTED_KS, Study, split_levels

_SUFFIXES: dict[TableFormat, str] = {"md": "md", "csv": "csv", "latex": "tex"}
_TRAINING = {
    "ratio/mean_abs_delta": ("mean |ρ−1|", 3),
    "ratio/max_abs_delta": ("max |ρ−1|", 2),
    "ratio/effective_samples": ("effective samples", 3),
    "clip_ratio/region_mean": ("clipped tokens", 3),
    GRADIENT_SPIKES: ("gradient p95/median", 2),
    "frac_groups_without_signal": ("groups without signal", 3),
    "entropy": ("nats per token", 3),
    "completions/distinct": ("distinct in a group", 3),
    "seconds": ("seconds", 0),
}


def study_tables(study: Study) -> dict[str, Table]:
    """Return the tables of a study by the name of their file.

    `scores` has the form of Tables 2 and 3 of the paper, `crossed` its means by the levels of two
    axes (absent where models have one), `max_at_k` and `pass_at_k` have the form of Tables 5 to 14;
    `differences` and `leaders` hold the paired tests, `pairs` those that the recipe asks for
    (absent if none), `seeds` the difference to the baseline seed by seed, `samples` what became of
    the samples and `training` what was logged.
    """
    pairs = {"pairs": _pairs_table(study)} if study.pairs else {}
    crossed = {"crossed": _crossed_table(study)} if _has_two_axes(study) else {}
    return {
        "scores": scores_table(study.compared),
        **crossed,
        "max_at_k": every_k(study.comparison, "max@k"),
        "pass_at_k": every_k(study.comparison, "pass@k"),
        "differences": differences_table(study.compared),
        "leaders": leaders_table(study.compared),
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


def _has_two_axes(study: Study) -> bool:
    return any(len(levels) > 1 for levels in study.levels.values())


def _crossed_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested: first axis down, the others across."""
    runs = {
        _place(levels): run for run in study.comparison.runs if (levels := study.levels[run.name])
    }
    across = [name for name in dict.fromkeys(name for _, name in runs) if name]
    rows = [
        (Cell(first), Cell(f"max@{k}"), *(_mean(runs.get((first, name)), k) for name in across))
        for k in study.comparison.shown_ks(TESTED_KS)
        for first in dict.fromkeys(first for first, _ in runs)
    ]
    return Table(("model", "metric", *across), tuple(rows))


def _place(levels: Mapping[str, str]) -> tuple[str, str]:
    """Return the row and the column of a model, such as `updates=8`, "" with one axis."""
    first, others = split_levels(levels)
    return first, ",".join(f"{axis}={level}" for axis, level in others.items())


def _mean(run: Run | None, k: int) -> Cell:
    return Cell("–" if run is None else share(run.metric("max@k", k)["mean"]))


def _seeds_table(study: Study) -> Table:
    """Return max@1 and max@k, k the largest tested, of every seed less the baseline's."""
    ks = study.comparison.shown_ks(TESTED_KS)
    baseline = study.comparison.baseline.name
    rows = [_seed_row(study, run.name, baseline, k) for k in ks for run in study.comparison.others]
    seeds = [f"seed {seed}" for seed in study.seeds]
    return Table((f"model − {baseline}", "metric", *seeds, "seeds above"), tuple(rows))


def _seed_row(study: Study, name: str, baseline: str, k: int) -> tuple[Cell, ...]:
    moved = _by_seed(study, name, baseline, "max@k", k)
    cells = [Cell(change(d), mark="above" if d > 0 else "below" if d < 0 else "") for d in moved]
    return (Cell(name), Cell(f"max@{k}"), *cells, _above(moved))


def _by_seed(study: Study, first: str, second: str, metric: str, k: int) -> list[float]:
    """Return the mean of one model less that of another, seed by seed."""
    means = [
        [study.by_seed[m][str(s)][metric][str(k)] for s in study.seeds] for m in (first, second)
    ]
    return [one - other for one, other in zip(*means, strict=True)]


def _above(moved: list[float]) -> Cell:
    return Cell(f"{sum(difference > 0 for difference in moved)} of {len(moved)}")


def _pairs_table(study: Study) -> Table:
    """Return the tests between paired models, with the number of seeds that agree."""
    table = tests_table("first − second", study.pairs)
    moved = [
        _by_seed(study, test.first, test.second, test.column.metric, test.column.k)
        for test in study.pairs
    ]
    rows = [(*row, _above(by_seed)) for row, by_seed in zip(table.rows, moved, strict=True)]
    return Table((*table.header, "seeds above"), tuple(rows))


def _training_table(study: Study) -> Table:
    trained = [run for run in study.comparison.runs if study.training[run.name]]
    logged = [key for key in _TRAINING if any(key in study.training[run.name] for run in trained)]
    largest = study.comparison.shown_ks(TESTED_KS)[-1]
    rows = []
    for run in trained:
        found = study.training[run.name]
        cells = [_number(found.get(key), _TRAINING[key][1]) for key in logged]
        rows.append((Cell(run.name), *cells, _mean(run, largest)))
    return Table(("model", *(_TRAINING[key][0] for key in logged), f"max@{largest}"), tuple(rows))


def _number(value: float | None, digits: int) -> Cell:
    return Cell("–" if value is None else f"{value:.{digits}f}")
