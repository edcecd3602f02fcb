"""The methods as rows of a table: advantage = scale(credit - baseline)."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from maxatk.check import is_number, require
from maxatk.errors import InvalidValueError, unknown_name
from maxatk.objectives import group, off_policy, rule, statistic
from maxatk.objectives.checks import FloatArray, refuse_k_above
from maxatk.objectives.group import Group
from maxatk.objectives.order import OrderWeights
from maxatk.objectives.rule import RuleOf

Correction: TypeAlias = Literal["none", "first_order", "exact"]
Scale: TypeAlias = Literal["none", "std", "mean", "subset_std"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credit:
    """What a credit is the credit for, and what goes with it."""

    statistic: str  # what its expectation is, in words; "" for none
    order: Callable[[int], OrderWeights] | None = None  # its order weights for a k, or:
    formulas: Mapping[str, Callable[[Group], FloatArray]] = dataclasses.field(default_factory=dict)
    """Credit minus baseline, (P, n), by the name of the baseline."""
    uses_k: bool = False  # the k of a call has a meaning
    needs_answers: bool = False  # it looks at answers beside the rewards
    keeps_level: bool = False  # equal rewards do not give 0
    per_sample: bool = False  # the mean of A_i grad log pi(y_i) is the estimate, not the sum
    scales: tuple[Scale, ...] = ("none", "std")
    first_order: bool = False  # section 3.3 expands it in the ratios


_kept = functools.lru_cache(256)

CREDITS: Mapping[str, Credit] = {
    "reward": Credit(
        statistic="mean reward",
        formulas={
            "none": lambda own: own.rewards,
            "mean": lambda own: own.centred_rewards,
            "leave_one_out": group.leave_one_out,
        },
        per_sample=True,
        scales=("none", "std", "mean"),
    ),
    "best": Credit(
        statistic="",
        formulas={
            "none": lambda own: group.of_best(own, own.rewards),
            "mean": lambda own: group.of_best(own, own.centred_rewards),
            "second_best": group.best_second,
        },
    ),
    "max_at_k": Credit(
        statistic="max@k",
        order=_kept(OrderWeights.max),
        uses_k=True,
        scales=("none", "std", "subset_std"),
        first_order=True,
    ),
    "min_at_k": Credit(statistic="min@k", order=_kept(OrderWeights.min), uses_k=True),
    "any_k": Credit(
        statistic="mean of max@1 to max@k", order=_kept(OrderWeights.any_k), uses_k=True
    ),
    "harmonic": Credit(
        statistic="sum of max@j / j, j up to n", order=_kept(lambda _: OrderWeights.harmonic())
    ),
    "majority": Credit(
        statistic="reward of the plurality answer of k",
        formulas=statistic.formulas(statistic.majority_chances),
        uses_k=True,
        needs_answers=True,
        scales=("none",),
    ),
    "distinct": Credit(
        statistic="sum of the rewards of the different answers of k",
        formulas=statistic.formulas(statistic.distinct_chances),
        uses_k=True,
        needs_answers=True,
        keeps_level=True,
        scales=("none",),
    ),
    "entropic": Credit(
        statistic="log-mean-exp of n rewards",
        formulas={"mean": group.entropic_mean, "remove_one": group.entropic_remove_one},
        scales=("none",),
    ),
}
"""The credits by name; a `Method` may also be given `OrderWeights` of its own."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline:
    """What is subtracted from the credit, and what follows from it."""

    formula: str  # for a statistic m, in words
    rule: RuleOf | None = None  # its steps for order weights, where every ratio is one
    corrected: Mapping[str, off_policy.Corrected] = dataclasses.field(default_factory=dict)
    """Credit minus baseline by the name of the correction."""
    unbiased: bool = True  # it is made of the other samples only
    keeps_level: bool = False  # equal rewards do not give 0
    spare: int = 0  # how many samples more than k it needs
    ratios_only: bool = False  # it goes with a correction only, of a credit that has the paper's


BASELINES: Mapping[str, Baseline] = {
    "none": Baseline(
        formula="0",
        rule=rule.credit,
        corrected=off_policy.of_both(lambda own, _: own.rewards),
        keeps_level=True,
    ),
    "mean": Baseline(
        formula="mean of the credits",
        rule=rule.mean,
        corrected=off_policy.of_both(
            lambda own, _: (group.centred(own.rewards[0]), group.centred(own.rewards[1]))
        ),
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
    "remove_one": Baseline(formula="the same without i", rule=rule.remove_one, spare=1),
    "others_credit": Baseline(
        formula="mean credit of the others alone", rule=rule.others_credit, keeps_level=True
    ),
    "second_best": Baseline(formula="second best distinct reward", unbiased=False),
    "constant": Baseline(
        formula="c for which the weights of r - c sum to 0",
        rule=rule.mean,
        corrected=off_policy.of_both(off_policy.constant),
        unbiased=False,
        ratios_only=True,
    ),
}
"""The baselines by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """One way to turn the rewards of a group into advantages: scale(credit - baseline).

    `credit` is a name in `CREDITS`, `OrderWeights`, whose k then is the method's, or a function of
    k rewards, and of their `answers` if it has a parameter of that name.

    Raises InvalidValueError for an unknown name and for a combination that has no meaning.
    """

    credit: str | OrderWeights | Callable[..., float]
    correction: Correction = "none"  # of an older policy: section 3.3 for max@k, or eq. (10)
    baseline: str = "none"  # a name in `BASELINES`
    scale: Scale = "none"  # what divides: std of the credits, mean reward, k/n std of the subsets
    source: str = ""  # where the method comes from, for people
    inverse_temperature: float = 1.0  # b of "entropic", log mean e^(b r) / b, in 1 / reward

    def __post_init__(self) -> None:
        if isinstance(self.credit, str) and self.credit not in CREDITS:
            raise unknown_name("Method.credit", self.credit, CREDITS)
        known = isinstance(self.credit, (str, OrderWeights)) or callable(self.credit)
        require(known, "Method.credit", "a name, OrderWeights or a function", self.credit)
        beta, kind = self.inverse_temperature, self.kind
        positive = is_number(beta) and 0 < beta < math.inf
        require(positive, "Method.inverse_temperature", "a finite number above 0", beta)
        corrected = {"none": True, "first_order": kind.first_order, "exact": bool(kind.order)}
        fitting = [name for name, has in corrected.items() if has]
        self._check("correction", corrected, fitting)
        self._check("scale", get_args(Scale), kind.scales)
        fitting = list(kind.formulas) or [n for n, row in BASELINES.items() if self._fits(row)]
        self._check("baseline", BASELINES, fitting)

    def _check(self, field: str, known: Iterable[str], fitting: Iterable[str]) -> None:
        name = getattr(self, field)
        if not isinstance(name, str) or name not in known:
            raise unknown_name(f"Method.{field}", str(name), known)
        if name not in fitting:
            beside = f" and the correction {self.correction!r}" if field == "baseline" else ""
            raise InvalidValueError(
                f"Method.{field}: {name!r} does not go with the credit {self.credit!r}{beside}; "
                f"allowed with it: {', '.join(map(repr, fitting))}"
            )

    def _fits(self, row: Baseline) -> bool:
        """Return whether a baseline goes with the order weights and the correction."""
        weights = self.weights(1)
        if self.correction == "none":
            # A statistic that depends on the size of the group is another one without sample i.
            by_rank = weights is not None and weights.by_rank
            return row.rule is not None and not row.ratios_only and not (by_rank and row.spare)
        return self.correction in row.corrected and (self.kind.first_order or not row.ratios_only)

    @property
    def kind(self) -> Credit:
        """Return the row of `CREDITS`, or one made of the method's own weights or function."""
        credit = self.credit
        if isinstance(credit, str):
            return CREDITS[credit]
        if isinstance(credit, OrderWeights):
            return Credit(statistic="sum of weighted order statistics", order=lambda _: credit)
        try:
            needs_answers = "answers" in inspect.signature(credit).parameters
        except (TypeError, ValueError):  # a builtin
            needs_answers = False
        return Credit(
            statistic=f"{getattr(credit, '__name__', 'a function')} of k samples",
            formulas={"leave_one_out": functools.partial(statistic.leave_one_out, credit)},
            uses_k=True,
            needs_answers=needs_answers,
            keeps_level=needs_answers,
            scales=("none",),
        )

    @property
    def unbiased_for(self) -> str:
        """Return the statistic whose gradient the advantages estimate without bias, or ""."""
        honest = BASELINES[self.baseline].unbiased and self.correction != "first_order"
        return self.kind.statistic if honest and self.scale == "none" else ""

    @property
    def keeps_level(self) -> bool:
        """Return whether equal rewards do not give 0."""
        return self.kind.keeps_level or BASELINES[self.baseline].keeps_level

    def weights(self, k: int) -> OrderWeights | None:
        """Return the order weights of the credit for a k, or None where it has none."""
        order = self.kind.order
        return order(k) if order else None

    def largest_k(self, samples: int) -> int:
        """Return the largest k of a call that the method has in groups of that many samples."""
        return max(samples - BASELINES[self.baseline].spare, 1)

    def samples_needed(self, k: int) -> int:
        """Return the size of the smallest group that the method has advantages for."""
        weights = self.weights(k)
        size = weights.size if weights else k if self.kind.uses_k else 1
        return size + BASELINES[self.baseline].spare


METHODS: Mapping[str, Method] = {
    "grpo": Method(credit="reward", baseline="mean", scale="std", source="eq. (5)"),
    "bon_max_mean": Method(credit="best", baseline="mean", source="appendix A; Chow et al. (2024)"),
    "bon_max_second": Method(
        credit="best", baseline="second_best", source="appendix A; Tang et al. (2025)"
    ),
    "bon_loo1": Method(
        credit="max_at_k", baseline="leave_one_out", source="appendix A; Walder & Karkhanis (2025)"
    ),
    "bon_mean": Method(credit="max_at_k", baseline="mean", scale="std", source="section 4.3"),
    "bon_off_policy": Method(
        credit="max_at_k",
        correction="first_order",
        baseline="constant",
        scale="std",
        source="section 3.3, appendix E",
    ),
    "bon_off_policy_exact": Method(
        credit="max_at_k", correction="exact", baseline="leave_one_out", source="eq. (10), exactly"
    ),
    "bon_replace": Method(credit="max_at_k", baseline="replace_one", source="this package"),
    "bon_centred": Method(
        credit="max_at_k",
        baseline="remove_one",
        source="section 4.3, made unbiased; times n/k: OrderGrad (2606.06096), MaxPO (2606.06080)",
    ),
    "any_k": Method(credit="any_k", baseline="replace_one", source="this package"),
    "max_likelihood": Method(
        credit="harmonic", baseline="replace_one", source="MaxRL (2602.02710) for real rewards"
    ),
    "min_at_k": Method(credit="min_at_k", baseline="replace_one", source="this package; pass^k"),
    "rloo": Method(
        credit="reward", baseline="leave_one_out", source="Ahmadian et al. (2402.14740)"
    ),
    "dr_grpo": Method(credit="reward", baseline="mean", source="Liu et al. (2503.20783)"),
    "majority": Method(
        credit="majority", baseline="replace_one", source="Tang et al. (2503.19595), exactly"
    ),
    "distinct": Method(credit="distinct", baseline="remove_one", source="this package"),
    "entropic": Method(
        credit="entropic", baseline="remove_one", source="RS-GRPO (2509.24261), made unbiased"
    ),
    "max_rl": Method(
        credit="reward", baseline="mean", scale="mean", source="MaxRL (2602.02710), as published"
    ),
    "pass_at_k_training": Method(
        credit="max_at_k", baseline="mean", scale="subset_std", source="Chen et al. (2508.10751)"
    ),
    "pkpo_sloo": Method(
        credit="max_at_k", baseline="others_credit", source="Walder & Karkhanis (2505.15201)"
    ),
    "rs_grpo": Method(
        credit="entropic", baseline="mean", source="RS-GRPO (2509.24261), as published"
    ),
}
"""The methods by name, as in docs/objectives.md with their formulas: a new one is a row in both.

The default, bon_loo1, is A_i = sum over the (k-1)-subsets J without i of max(J + i) - max J, over
C(n, k).
"""


def as_method(method: str | Method) -> Method:
    """Return the row of a name; raise InvalidValueError for an unknown one."""
    if isinstance(method, Method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    return METHODS[method]


def check_group_size(method: Method, k: int, samples: int) -> int:
    """Return the fewest samples that the method needs; raise InvalidValueError for fewer."""
    needed, and_k = method.samples_needed(k), ""
    if method.kind.uses_k:
        refuse_k_above(k, samples)
        and_k = f" and k={k}"
    if needed > samples:
        raise InvalidValueError(
            f"method: {method.credit!r} with the baseline {method.baseline!r}{and_k} needs at "
            f"least {needed} samples, got {samples}"
        )
    return needed
