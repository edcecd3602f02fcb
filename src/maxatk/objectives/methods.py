"""The methods as rows of a table: advantage = scale(credit - baseline)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from maxatk.check import is_number, one_of, require
from maxatk.errors import InvalidValueError
from maxatk.objectives.baselines import BASELINES, Baseline
from maxatk.objectives.checks import refuse_k_above
from maxatk.objectives.credits import (
    CREDITS,
    Credit,
    Scale,
    credit_of_function,
    credit_of_weights,
)
from maxatk.objectives.group import Group
from maxatk.objectives.off_policy import Pair, over_ties
from maxatk.objectives.order import OrderWeights
from maxatk.python_numbers import use_python_numbers

Correction: TypeAlias = Literal["none", "first_order", "exact"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """One way to turn the rewards of a group into advantages: scale(credit - baseline).

    `credit` is a name in `CREDITS`, `OrderWeights`, whose k then is the method's, or a function of
    k rewards. If it has a parameter `answers` it also gets an integer for each of their answers,
    equal for equal ones.

    Raises InvalidValueError for an unknown name and for a combination that has no meaning.
    """

    credit: str | OrderWeights | Callable[..., float]
    correction: Correction = "none"  # of an older policy: section 3.3 for max@k, or eq. (10)
    baseline: str = "none"  # a name in `BASELINES`
    scale: Scale = "none"  # what divides: std of the credits, mean reward, k/n std of the subsets
    source: str = ""  # where the method comes from, for people
    inverse_temperature: float = 1.0  # b of "entropic", log mean e^(b r) / b, in 1 / reward

    def __post_init__(self) -> None:
        use_python_numbers(self, "inverse_temperature")
        if isinstance(self.credit, str):
            one_of("Method.credit", self.credit, CREDITS)
        has_a_credit = isinstance(self.credit, (str, OrderWeights)) or callable(self.credit)
        require(has_a_credit, "Method.credit", "a name, OrderWeights or a function", self.credit)
        beta = self.inverse_temperature
        positive = is_number(beta) and 0 < beta < math.inf
        require(positive, "Method.inverse_temperature", "a finite number above 0", beta)
        has_use = beta == 1.0 or self.credit == "entropic"
        allowed = f"1 with the credit {self.credit!r}, which has no use for it"
        require(has_use, "Method.inverse_temperature", allowed, beta)
        self._check("correction", get_args(Correction), self._corrections())
        self._check("scale", get_args(Scale), self.credit_row.scales)
        self._check("baseline", BASELINES, self._baselines())

    def _check(self, field: str, names: Collection[str], fitting: Iterable[str]) -> None:
        name = getattr(self, field)
        one_of(f"Method.{field}", name, names)
        if name not in fitting:
            beside = f" and the correction {self.correction!r}" if field == "baseline" else ""
            raise InvalidValueError(
                f"Method.{field}: {name!r} does not go with the credit {self.credit!r}{beside}; "
                f"allowed with it: {', '.join(map(repr, fitting))}"
            )

    def _corrections(self) -> list[str]:
        """Return the corrections that go with the credit."""
        corrections = ["none"]
        if self.credit_row.first_order:
            corrections.append("first_order")
        if self.credit_row.order:
            corrections.append("exact")
        return corrections

    def _baselines(self) -> list[str]:
        """Return the baselines that go with the credit and the correction."""
        if self.credit_row.formulas:
            return list(self.credit_row.formulas)
        return [name for name, baseline in BASELINES.items() if self._goes_with(baseline)]

    def _goes_with(self, baseline: Baseline) -> bool:
        """Return whether a baseline goes with the order weights and the correction."""
        if self.correction != "none":
            of_the_paper = self.credit_row.first_order
            return self.correction in baseline.corrected and (
                of_the_paper or not baseline.ratios_only
            )
        if baseline.rule is None or baseline.ratios_only:
            return False
        # A statistic that depends on the size of the group is another one without sample i.
        weights = self.weights(1)
        by_rank = weights is not None and weights.by_rank
        return not (by_rank and baseline.spare)

    @property
    def credit_row(self) -> Credit:
        """Return the row of `CREDITS`, or one made of the method's own weights or function."""
        if isinstance(self.credit, str):
            return CREDITS[self.credit]
        if isinstance(self.credit, OrderWeights):
            return credit_of_weights(self.credit)
        return credit_of_function(self.credit)

    @property
    def baseline_row(self) -> Baseline:
        """Return the row of `BASELINES`."""
        return BASELINES[self.baseline]

    @property
    def unbiased_for(self) -> str:
        """Return the statistic whose gradient the advantages estimate without bias, or ""."""
        made_of_others = self.baseline_row.unbiased
        if made_of_others and self.correction != "first_order" and self.scale == "none":
            return self.credit_row.statistic
        return ""

    @property
    def keeps_level(self) -> bool:
        """Return whether equal rewards do not give 0."""
        return self.credit_row.keeps_level or self.baseline_row.keeps_level

    def weights(self, k: int) -> OrderWeights | None:
        """Return the order weights of the credit for a k, or None where it has none."""
        order = self.credit_row.order
        return order(k) if order else None

    def largest_k(self, samples: int) -> int:
        """Return the largest k of a call that the method has in groups of that many samples."""
        return max(samples - self.baseline_row.spare, 1)

    def samples_needed(self, k: int) -> int:
        """Return the size of the smallest group that the method has advantages for."""
        size = k if self.credit_row.uses_k else 1
        weights = self.weights(k)
        if weights:
            size = weights.size
        return size + self.baseline_row.spare

    def samples_compared(self, k: int) -> int:
        """Return the size of the smallest group in which the method tells samples apart."""
        needed = self.samples_needed(k)
        # One sample has nothing to be compared with.
        return needed if self.baseline_row.keeps_level else max(needed, 2)

    def credit_minus_baseline(self, group: Group, *, off_policy: bool) -> Pair:
        """Return credit minus baseline without the own ratio, and its slope, (P, n) both.

        With the own ratio it is the first plus delta_i times the second. `off_policy` says whether
        the ratios of the group are looked at.
        """
        credit = self.credit_row
        baseline = self.baseline_row
        if credit.formulas or baseline.rule is None:
            values = credit.formulas[self.baseline](group)
        elif off_policy and self.correction != "none":
            return over_ties(baseline.corrected[self.correction], baseline.rule, group)
        else:
            values = group.on_policy(baseline.rule)
        return values, values


METHODS: Mapping[str, Method] = {
    # (r_i - mean r) / (std r + 1e-4)
    "grpo": Method(credit="reward", baseline="mean", scale="std", source="eq. (5)"),
    # r_i - mean r where r_i is the largest reward, else 0
    "bon_max_mean": Method(credit="best", baseline="mean", source="appendix A; Chow et al. (2024)"),
    # r_i - second best reward where r_i is the largest, else 0
    "bon_max_second": Method(
        credit="best", baseline="second_best", source="appendix A; Tang et al. (2025)"
    ),
    # sum over J of (r_i - max J)_+ / C(n, k), J the (k-1)-subsets of the others
    "bon_loo1": Method(
        credit="max_at_k", baseline="leave_one_out", source="appendix A; Walder & Karkhanis (2025)"
    ),
    # (c_i - mean c) / (std c + 1e-4), c_i = sum over J of max(J + i) / C(n, k)
    "bon_mean": Method(credit="max_at_k", baseline="mean", scale="std", source="section 4.3"),
    # (w_i[r] - c w_i[1]) / std, the weights w of c_i to first order in the ratios
    "bon_off_policy": Method(
        credit="max_at_k",
        correction="first_order",
        baseline="constant",
        scale="std",
        source="section 3.3, appendix E",
    ),
    # sum over J of rho(J) (r_i - max J)_+ / C(n, k), rho(J) the product of ratios
    "bon_off_policy_exact": Method(
        credit="max_at_k", correction="exact", baseline="leave_one_out", source="eq. (10), exactly"
    ),
    # max@k - mean over j of max@k with r_j in the place of r_i
    "bon_replace": Method(credit="max_at_k", baseline="replace_one", source="this package"),
    # max@k - max@k of the others
    "bon_centred": Method(
        credit="max_at_k",
        baseline="remove_one",
        source="section 4.3, made unbiased; times n/k: OrderGrad (2606.06096), MaxPO (2606.06080)",
    ),
    # as bon_replace, of the mean of max@1 to max@k
    "any_k": Method(credit="any_k", baseline="replace_one", source="this package"),
    # as bon_replace, of the sum of max@j / j over j = 1..n
    "max_likelihood": Method(
        credit="harmonic", baseline="replace_one", source="MaxRL (2602.02710) for real rewards"
    ),
    # as bon_replace, of min@k
    "min_at_k": Method(credit="min_at_k", baseline="replace_one", source="this package; pass^k"),
    # r_i - mean of the others
    "rloo": Method(
        credit="reward", baseline="leave_one_out", source="Ahmadian et al. (2402.14740)"
    ),
    # r_i - mean r
    "dr_grpo": Method(credit="reward", baseline="mean", source="Liu et al. (2503.20783)"),
    # as bon_replace, of the reward of the plurality answer of k
    "majority": Method(
        credit="majority", baseline="replace_one", source="Tang et al. (2503.19595), exactly"
    ),
    # as bon_centred, of the rewards of the different answers of k
    "distinct": Method(credit="distinct", baseline="remove_one", source="this package"),
    # log mean e^(b r) / b - the same of the others
    "entropic": Method(
        credit="entropic", baseline="remove_one", source="RS-GRPO (2509.24261), made unbiased"
    ),
    # (r_i - mean r) / mean r
    "max_rl": Method(
        credit="reward", baseline="mean", scale="mean", source="MaxRL (2602.02710), as published"
    ),
    # (c_i - mean c) / (k/n std of max over the k-subsets), c_i as in bon_mean
    "pass_at_k_training": Method(
        credit="max_at_k", baseline="mean", scale="subset_std", source="Chen et al. (2508.10751)"
    ),
    # c_i - mean credit of the others alone, c_i as in bon_mean
    "pkpo_sloo": Method(
        credit="max_at_k", baseline="others_credit", source="Walder & Karkhanis (2505.15201)"
    ),
    # (e^(b r_i) / sum e^(b r) - 1/n) / b
    "rs_grpo": Method(
        credit="entropic", baseline="mean", source="RS-GRPO (2509.24261), as published"
    ),
}
"""The methods by name, as in docs/objectives.md: a new one is a row in both. The default: bon_loo1.

Each comment is the advantage of sample i in a group of n rewards r where every ratio is one.
"""


def as_method(method: str | Method) -> Method:
    """Return the row of a name; raise InvalidValueError for an unknown one."""
    if isinstance(method, Method):
        return method
    one_of("method", method, METHODS)
    return METHODS[method]


def check_group_size(method: Method, k: int, samples: int) -> int:
    """Return the fewest samples that the method needs; raise InvalidValueError for fewer."""
    needed = method.samples_needed(k)
    and_k = ""
    if method.credit_row.uses_k:
        refuse_k_above(k, samples)
        and_k = f" and k={k}"
    if needed > samples:
        raise InvalidValueError(
            f"method: {method.credit!r} with the baseline {method.baseline!r}{and_k} needs at "
            f"least {needed} samples, got {samples}"
        )
    return needed
