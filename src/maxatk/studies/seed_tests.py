"""The tests of a study: two models against each other over its seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.errors import unknown_name
from maxatk.evaluation.statistics.seeds import SeedDifference, seed_difference
from maxatk.evaluation.statistics.significance import adjusted_p_values
from maxatk.report.deciding import Measure
from maxatk.report.runs import Comparison, Run


@dataclasses.dataclass(frozen=True)
class SeedTest:
    """One model against another in one measure, over the seeds of a study.

    `over_seeds` is the test. `adjusted_p` is its p corrected over all tests of its list
    (Benjamini-Hochberg), None where there is none; `significant` says whether it is at most the
    level of the study. `prompts_low` and `prompts_high` are the ends of the paired 95% interval
    over the prompts of all seeds together, None for a single prompt. It says what other prompts
    would give with these very trainings, and it is too narrow for other seeds.
    """

    measure: Measure
    first: str
    second: str
    over_seeds: SeedDifference
    prompts_low: float | None
    prompts_high: float | None
    adjusted_p: float | None
    significant: bool

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SeedTest:
        """Return the test of a JSON object, as `dataclasses.asdict` makes them."""
        over_seeds = value["over_seeds"]
        found = SeedDifference(**{**over_seeds, "by_seed": tuple(over_seeds["by_seed"])})
        return cls(**{**value, "measure": Measure(**value["measure"]), "over_seeds": found})


@dataclasses.dataclass(frozen=True)
class SeededRuns:
    """The runs of a study: over the problems of all seeds, and those of every seed alone."""

    together: Comparison
    by_seed: Sequence[Comparison]

    def test(self, measure: Measure, first: str, second: str) -> SeedTest:
        """Return the test of one model against another, not yet corrected for being one of many.

        Raises InvalidValueError for the name of no model.
        """
        metric, k = measure.metric, measure.k
        runs = [_run(self.together, name) for name in (first, second)]
        over_prompts = self.together.difference(runs[0], metric, [k], to=runs[1])
        moved = []
        for comparison in self.by_seed:
            mine, other = (_run(comparison, name).values(metric, [k]) for name in (first, second))
            moved.append(float(np.nanmean(mine - other)))
        return SeedTest(
            measure=measure,
            first=first,
            second=second,
            over_seeds=seed_difference(moved),
            prompts_low=_known(over_prompts.low[0]),
            prompts_high=_known(over_prompts.high[0]),
            adjusted_p=None,
            significant=False,
        )

    def best_two(self, measure: Measure) -> tuple[str, str]:
        """Return the models with the best and the second best mean over all problems."""
        best, second, *_ = self.together.ranked(measure.metric, measure.k)
        return best.name, second.name


def corrected(tests: Sequence[SeedTest], alpha: float) -> tuple[SeedTest, ...]:
    """Return the tests of one list with their p corrected, significant at the level `alpha`.

    Tests over fewer than three seeds have no p, and are never significant.
    """
    known = [test.over_seeds.p for test in tests if test.over_seeds.p is not None]
    adjusted = iter(adjusted_p_values(known))
    found = []
    for test in tests:
        p = None if test.over_seeds.p is None else next(adjusted)
        found.append(
            dataclasses.replace(test, adjusted_p=p, significant=p is not None and p <= alpha)
        )
    return tuple(found)


def _run(comparison: Comparison, name: str) -> Run:
    for run in comparison.runs:
        if run.name == name:
            return run
    raise unknown_name("pairs", name, [run.name for run in comparison.runs])


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
