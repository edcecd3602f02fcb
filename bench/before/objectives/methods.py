"""The methods as rows of a table: advantage = scale(credit - baseline)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from before.objectives.credits import CREDITS, Correction
from before.objectives.numerators import NUMERATORS, Baseline, CreditName
from maxatk.errors import InvalidValueError, unknown_name

Scale: TypeAlias = Literal["none", "std"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """One way to turn the rewards of a group into advantages.

    - `credit`: "reward" (the reward itself), "best" (the reward of the best samples, 0 for the
      rest) or "max_at_k" (the credits of eq. 9 and 10).
    - `correction` of a max@k credit for samples of an older policy: "none", "first_order"
      (section 3.3) or "exact" (eq. 10).
    - `baseline`: "none", "mean" of the group, "leave_one_out", "second_best" (of credit "best")
      or "constant" (of a corrected max@k credit: the c for which the weights of r - c sum to 0).
    - `scale`: "none" or "std" (division by a standard deviation; see `advantages`).
    - `source`: where the method comes from, for people.

    Raises InvalidValueError for an unknown name and for a combination that has no meaning.
    """

    credit: CreditName
    correction: Correction = "none"
    baseline: Baseline = "none"
    scale: Scale = "none"
    source: str = ""

    def __post_init__(self) -> None:
        for field, allowed in _NAMES.items():
            name = getattr(self, field)
            if name not in allowed:
                raise unknown_name(f"Method.{field}", str(name), allowed)
        if self.correction != "none" and self.credit != "max_at_k":
            raise InvalidValueError(
                f"Method.correction: {self.correction!r} corrects the credit 'max_at_k' only, "
                f"got the credit {self.credit!r}; allowed with it: 'none'"
            )
        if self.baseline == "constant" and self.correction == "none":
            raise InvalidValueError(
                "Method.baseline: 'constant' is made for a correction; without one it is 'mean'"
            )
        if (self.credit, self.baseline) not in NUMERATORS:
            legal = [repr(baseline) for credit, baseline in NUMERATORS if credit == self.credit]
            raise InvalidValueError(
                f"Method.baseline: {self.baseline!r} does not go with the credit "
                f"{self.credit!r}; allowed with it: {', '.join(legal)}"
            )


_NAMES: Mapping[str, tuple[str, ...]] = {
    "credit": get_args(CreditName),
    "correction": tuple(CREDITS),
    "baseline": get_args(Baseline),
    "scale": get_args(Scale),
}

METHODS: Mapping[str, Method] = {
    "grpo": Method(
        credit="reward",
        baseline="mean",
        scale="std",
        source="eq. (5)",
    ),
    "bon_max_mean": Method(
        credit="best",
        baseline="mean",
        source="appendix A; Chow et al. (2024)",
    ),
    "bon_max_second": Method(
        credit="best",
        baseline="second_best",
        source="appendix A; Tang et al. (2025)",
    ),
    "bon_loo1": Method(
        credit="max_at_k",
        baseline="leave_one_out",
        source="appendix A; Walder & Karkhanis (2025)",
    ),
    "bon_mean": Method(
        credit="max_at_k",
        baseline="mean",
        scale="std",
        source="section 4.3",
    ),
    "bon_off_policy": Method(
        credit="max_at_k",
        correction="first_order",
        baseline="constant",
        scale="std",
        source="section 3.3, appendix E",
    ),
    "bon_off_policy_exact": Method(
        credit="max_at_k",
        correction="exact",
        baseline="leave_one_out",
        source="eq. (10), computed exactly",
    ),
}
"""The methods by name. A new one is one row here and one in docs/objectives.md."""
