"""The command `select`: what remains of max@k when the best of k is chosen without the reward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from maxatk.cli.output import Output, OutputFormat, emit
from maxatk.errors import counted
from maxatk.evaluation.means import number_or_none
from maxatk.evaluation.selection_gains import selection_gains
from maxatk.report.tables import Cell, interval, table_of_rows, three_decimals


def command(
    run: Annotated[Path, tyro.conf.Positional],
    /,
    by: tuple[str, ...],
    k: tuple[int, ...] = (),
    format: OutputFormat = "text",
) -> None:
    """Choose the best of k samples by a stored score, and show what that gains.

    The first row is max@k itself, where the reward chooses; the last is a random choice.

    Example: maxatk select runs/base --by likelihood majority --k 1 8 64

    Args:
        run: A folder written by eval or score.
        by: What chooses: a column of the scores (such as visible_tests), likelihood,
            mean_likelihood (of a token), tokens, entropy, majority (of the answers), or
            scorio:RULE:COLUMN, a rule of scorio that weighs the answers by a column.
        k: Of how many samples, from 1 to those of a problem; 1, 2, 4, ... if none is given.
    """
    selection = selection_gains(run, by, ks=k or None)
    left_out = {
        "problems_left_out": selection.left_out,
        "samples_left_out": selection.samples_left_out,
    }
    rows = []
    lines: list[list[Cell | str]] = []
    for way, gain in selection.gains.items():
        cells: list[Cell | str] = [way]
        for column, best_of in enumerate(selection.ks):
            mean = number_or_none(gain.mean[column])
            low = number_or_none(gain.low[column])
            high = number_or_none(gain.high[column])
            problems = int(gain.problems[column])
            numbers = {"mean": mean, "low": low, "high": high, "problems": problems}
            rows.append({"by": way, "k": best_of, **numbers, **left_out})
            note = counted(problems) if problems < selection.problems else ""
            cells.append(Cell(three_decimals(mean), interval(low, high), note=note))
        lines.append(cells)
    table = table_of_rows(["chosen by", *(f"of {best_of}" for best_of in selection.ks)], lines)
    title = f"95% intervals over {counted(selection.problems)}"
    if selection.samples_left_out:
        title += (
            f"; left out without a reward or a score: samples {selection.samples_left_out:,}, "
            f"problems {selection.left_out:,}"
        )
    emit({"selection": Output(rows, table, title)}, format)
