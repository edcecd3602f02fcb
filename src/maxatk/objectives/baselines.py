"""The baselines: what a sample's credit is compared with, one row of `BASELINES` each.

`rule` has their formulas where every ratio is one, `off_policy` those with a correction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from maxatk.objectives import off_policy, rule
from maxatk.objectives.off_policy import Corrected
from maxatk.objectives.rule import MakeRule


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline:
    """What is subtracted from the credit, and what follows from it."""

    formula: str  # for a statistic m, in words
    rule: MakeRule | None = None  # its steps for order weights, where every ratio is one
    corrected: Mapping[str, Corrected] = dataclasses.field(default_factory=dict)
    """Credit minus baseline by the name of the correction."""
    unbiased: bool = True  # it is made of the other samples only
    keeps_level: bool = False  # equal rewards do not give 0
    spare: int = 0  # how many samples more than k it needs
    ratios_only: bool = False  # it goes with a correction only, of a credit that has the paper's


BASELINES: Mapping[str, Baseline] = {
    "none": Baseline(
        formula="0",
        rule=rule.credit,
        corrected=off_policy.of_credits(off_policy.credit),
        keeps_level=True,
    ),
    "mean": Baseline(
        formula="mean of the credits",
        rule=rule.mean,
        corrected=off_policy.of_credits(off_policy.mean),
        unbiased=False,
    ),
    "leave_one_out": Baseline(
        formula="mean over replacing i by the others of its subset",
        rule=rule.leave_one_out,
        corrected={
            "first_order": off_policy.first_order_leave_one_out,
            "exact": off_policy.exact_leave_one_out,
        },
    ),
    "replace_one": Baseline(
        formula="mean over replacing i by each of the others",
        rule=rule.replace_one,
        corrected={"exact": off_policy.exact_replace_one},
    ),
    "remove_one": Baseline(
        formula="the same without i",
        rule=rule.remove_one,
        spare=1,
    ),
    "others_credit": Baseline(
        formula="mean credit of the others alone",
        rule=rule.others_credit,
        keeps_level=True,
    ),
    "second_best": Baseline(
        formula="second best distinct reward",
        unbiased=False,
    ),
    "constant": Baseline(
        formula="c for which the weights of r - c sum to 0",
        rule=rule.mean,
        corrected=off_policy.of_credits(off_policy.constant),
        unbiased=False,
        ratios_only=True,
    ),
}
"""The baselines by name."""
