"""The verdict as strips: one row a model, one column a k."""

from __future__ import annotations

from collections.abc import Callable

from maxatk.report.cells import Cell, Column, Table, tabulate
from maxatk.report.deciding import Decision
from maxatk.report.numbers import MINUS

_SIGNS = {1: ("+", "above"), 0: ("=", ""), -1: (MINUS, "below")}


def winners(decision: Decision) -> Table:
    """Return the models that are best at some k: where each is "best", and where "tied" with it."""
    names = list(dict.fromkeys(name for k in decision.ks for name in decision.leaders[k]))

    def cell(name: str, k: int) -> Cell:
        best, *tied = decision.leaders[k]
        word = "best" if name == best else "tied" if name in tied else ""
        return Cell(word, mark=word)

    return _over_k("best of N", decision, names, cell)


def against_baseline(decision: Decision) -> Table:
    """Return every other model: where it is above (+) or below (−) the baseline, or neither (=)."""
    names = list(dict.fromkeys(test.first for test in decision.against_baseline))

    def cell(name: str, k: int) -> Cell:
        sign, mark = _SIGNS[decision.direction(name, k)]
        return Cell(sign, mark=mark)

    return _over_k(f"against {decision.baseline}", decision, names, cell)


def _over_k(
    heading: str, decision: Decision, names: list[str], cell: Callable[[str, int], Cell]
) -> Table:
    def column(k: int) -> Column[str]:
        return Column(str(k), lambda name: cell(name, k))

    return tabulate([Column(heading, Cell), *map(column, decision.ks)], names)
