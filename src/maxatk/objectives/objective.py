"""What is trained for: a method, its k over the training, a mixture, and what those allow."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from maxatk.check import is_number, is_whole, returned_number
from maxatk.errors import DataError, InvalidValueError, unknown_name
from maxatk.folders import read_json, write_json
from maxatk.objectives.advantage import Form, advantages
from maxatk.objectives.group import root_sum_of_squares
from maxatk.objectives.methods import METHODS, Method, check_group_size
from maxatk.objectives.setting import method_of
from maxatk.python_numbers import use_python_numbers

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 0.0,  # noqa: ARG005
    "linear": lambda progress: progress,
    "cosine": lambda progress: (1 - math.cos(math.pi * progress)) / 2,
}
"""Name -> how much of the way from `k` to `k_final` is done, of the share of training done."""

SCALES = ("mean", "sum", "batch")
DECAY = 0.99  # what the running mean of squares keeps of itself at a rollout batch
FILE = "advantage_scale.json"  # of a checkpoint, with the running root mean square


def root_mean_square(values: np.ndarray) -> float:
    """Return the root of the mean square of at least one value."""
    return float(root_sum_of_squares(values.ravel())[0]) / math.sqrt(values.size)


class AdvantageScale:
    """The factor between a method's advantages and those that the loss, a mean, is given.

    "mean" is the size of a group for a credit that is summed over samples, as in eq. (9), and 1 for
    others. "sum", and a method with a scale of its own, is 1. "batch" is 1 / the running root mean
    square, with `DECAY` at each rollout batch, of the advantages in groups that had a signal.
    """

    def __init__(self, name: str, method: Method) -> None:
        self._name = name if method.scale == "none" else "sum"
        self._is_summed = not method.credit_row.per_sample
        self._root = 0.0
        self._weight = 0.0  # of what the mean has seen, up to 1: divides out that it began at 0

    def observe(self, advantages: np.ndarray) -> None:
        """Take the advantages (P, n) of a rollout batch into the running root mean square."""
        signal = advantages[(advantages != 0).any(axis=1)]
        if self._name == "batch" and signal.size:
            # Roots all the way: squares of large advantages would overflow.
            kept = math.sqrt(DECAY) * self._root
            added = math.sqrt(1 - DECAY) * root_mean_square(signal)
            self._root = math.hypot(kept, added)
            self._weight = DECAY * self._weight + 1 - DECAY

    def factor(self, group_size: int) -> float:
        """Return what the advantages of groups of this size are multiplied by."""
        if self._name == "mean" and self._is_summed:
            return float(group_size)
        if self._name == "batch" and self._root > 0:
            return math.sqrt(self._weight) / self._root
        return 1.0

    def save(self, folder: Path) -> None:
        """Write the running root mean square to a checkpoint's folder, where there is one."""
        if self._name == "batch":
            write_json(folder / FILE, {"root_mean_square": self._root, "weight": self._weight})

    def load(self, folder: Path) -> None:
        """Take over what `save` wrote; raise InvalidValueError where it is missing."""
        if self._name != "batch":
            return
        if not (folder / FILE).is_file():
            raise InvalidValueError(
                f"advantage_scale: 'batch' cannot resume from {folder}, which was written with "
                f"another scale and lacks {FILE}; allowed: the scale that it was written with"
            )
        saved = read_json(folder / FILE)
        values = [saved.get(name, -1) for name in ("root_mean_square", "weight")]
        if not all(is_number(value) and 0 <= value < math.inf for value in values):
            raise DataError(f"{folder / FILE}: must hold a root_mean_square and a weight >= 0")
        self._root, self._weight = values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """The settings of what is trained for: max_weight * max@k + (1 - max_weight) * max@1.

    Raises InvalidValueError, with a line for each, for settings that are wrong in groups of any
    size; `problems` finds those that are wrong in groups of one size.
    """

    method: str | Mapping[str, Any]  # a name in `METHODS`, or a mapping for `method_of`
    k: int  # of a method that has no k, for the log
    form: Form = "ppo"
    delta_clamp: float | None = 0.5  # the `clamp` of `advantages`
    k_schedule: str = "constant"  # how k moves to `k_final` over the training: in `SCHEDULES`
    k_final: int | None = None  # None is 1
    max_weight: float = 1.0
    advantage_scale: str = "mean"  # of `AdvantageScale`
    selection: str | None = None  # name of the score that selects
    answers: str | None = None  # name of the function that reads answers

    def __post_init__(self) -> None:
        use_python_numbers(self)
        wrong = list(self._wrong_settings())
        try:
            wrong += self._without_effect(self._method)
        except InvalidValueError as error:
            text = str(error)
            wrong.append(text if text.startswith("method") else f"method: {text}")
        if wrong:
            raise InvalidValueError("\n".join(wrong))

    def problems(self, group_size: int, *, called: str = "the group size") -> list[str]:
        """Return what is not allowed in groups of that many samples: field, value, remedy.

        A method on answers needs the name of the function that reads them, too.
        """
        wrong = list(self._in_groups_of(group_size, called))
        if self._method.credit_row.needs_answers and self.answers is None:
            wanted = f"a function module:name with the method {self.method!r}"
            wrong.insert(0, f"answers: must be {wanted}, got None")
        return wrong

    def check_group_size(self, group_size: int) -> None:
        """Raise InvalidValueError for what is not allowed in groups of that many samples."""
        wrong = list(self._in_groups_of(group_size, "the group size"))
        if wrong:
            raise InvalidValueError("\n".join(wrong))

    @functools.cached_property
    def _method(self) -> Method:  # whose statistic may come from a file, which is run once
        return method_of(self.method)

    @property
    def needs_ratios(self) -> bool:
        """Return whether the advantages change with the ratios of the whole group."""
        return self._method.correction != "none" or self.form == "reinforce"

    @property
    def last_k(self) -> int:
        """Return the k at the end of the training."""
        return self.k if self.k_schedule == "constant" else (self.k_final or 1)

    def k_at(self, progress: float) -> int:
        """Return the k after a share of the training, 0 to 1, rounded half up.

        A share beyond 0 and 1 is that end. Raises InvalidValueError for what is no number, and for
        NaN.
        """
        share = returned_number(progress)
        if share is None or math.isnan(share):
            raise InvalidValueError(f"progress: must be a number from 0 to 1, got {progress!r}")
        moved = SCHEDULES[self.k_schedule](min(max(share, 0.0), 1.0))
        return math.floor(self.k + (self.last_k - self.k) * moved + 0.5)

    def scale(self) -> AdvantageScale:
        """Return what the advantages are multiplied by; it has seen none yet."""
        return AdvantageScale(self.advantage_scale, self._method)

    def advantages(
        self,
        rewards: np.ndarray,
        k: int,
        *,
        log_ratios: np.ndarray | None = None,
        selection: np.ndarray | None = None,
        answers: np.ndarray | None = None,
        held_out: bool = False,
    ) -> np.ndarray:
        """Return `maxatk.advantages`, all (P, n).

        Groups that are `held_out`, on which nothing is trained, may be smaller than k: they have
        the largest k they can. Raises InvalidValueError for others, and for a selection without
        scores.
        """
        if self.selection is not None and selection is None:
            raise InvalidValueError(
                f"selection: {self.selection!r} needs scores in the groups, which select a sample; "
                "allowed without: None"
            )
        if held_out:
            size = rewards.shape[1]
            k = min(k, self._method.largest_k(size))
            if size == 1 < self._method.samples_compared(k):
                return np.zeros(rewards.shape)  # as they are, without a warning of small groups
        advantages_of = functools.partial(
            advantages,
            rewards,
            self._method,
            log_ratios=log_ratios,
            selection=selection,
            answers=answers,
            form=self.form,
            clamp=self.delta_clamp,
        )
        of_best = advantages_of(k)
        if self.max_weight == 1.0:
            return of_best
        of_mean = advantages_of(1)
        mixed: np.ndarray = self.max_weight * of_best + (1 - self.max_weight) * of_mean
        return mixed

    def _in_groups_of(self, group_size: int, called: str) -> Iterator[str]:
        """Yield what is not allowed in groups of that many samples."""
        beyond = False
        for field, k in (("k", self.k), ("k_final", self.k_final)):
            if k is not None and k > group_size:
                beyond = True
                yield f"{field}: must be a whole number from 1 to {called} ({group_size}), got {k}"
        if not beyond:
            yield from self._beyond_the_group(self._method, group_size, called)

    def _wrong_settings(self) -> Iterator[str]:
        allowed_names = {"form": get_args(Form), "k_schedule": SCHEDULES, "advantage_scale": SCALES}
        for field, names in allowed_names.items():
            name = getattr(self, field)
            if not isinstance(name, str) or name not in names:
                yield str(unknown_name(field, str(name), names))
        for field, k in (("k", self.k), ("k_final", self.k_final)):
            if field == "k_final" and k is None:
                continue
            if not is_whole(k, 1):
                yield f"{field}: must be a whole number from 1 to the group size, got {k!r}"
        if self.k_final is not None and self.k_schedule == "constant":
            yield f"k_final: {self.k_final!r} needs a k_schedule; allowed: linear, cosine"
        if not (is_number(self.max_weight) and 0 <= self.max_weight <= 1):
            yield f"max_weight: must be from 0 to 1, got {self.max_weight!r}"
        clamp = self.delta_clamp
        if clamp is not None and not (is_number(clamp) and clamp > 0):
            yield f"delta_clamp: must be a positive number or None, got {clamp!r}"

    def _without_effect(self, method: Method) -> Iterator[str]:
        """Yield the settings that the method has no use for."""
        credit = method.credit_row
        name = f"the method {self.method!r}"
        for field, idle in (("k_schedule", "constant"), ("max_weight", 1.0)):
            if getattr(self, field) != idle and not credit.uses_k:
                fitting = [other for other, row in METHODS.items() if row.credit_row.uses_k]
                yield (
                    f"{field}: {getattr(self, field)!r} has no effect on {name}, which has no k; "
                    f"allowed with it: {idle!r}, or a method of: {', '.join(fitting)}"
                )
        if self.selection is not None and credit.order is None:
            yield (
                f"selection: {self.selection!r} has no effect on {name}, which orders no samples; "
                "allowed with it: None"
            )
        if self.answers is not None and not credit.needs_answers:
            yield f"answers: must be None with {name}, got {self.answers!r}"

    def _beyond_the_group(self, method: Method, group_size: int, called: str) -> Iterator[str]:
        """Yield what the method has no advantages for, or only those that are 0."""
        # A constant k is one key, whose later name stays.
        ends = {self.last_k: "k_final", self.k: "k"}
        for k, field in reversed(ends.items()):
            try:
                check_group_size(method, k, group_size)
            except InvalidValueError as error:
                yield str(error)
                continue
            if group_size == 1 and not method.keeps_level:
                yield (
                    f"{called}: 1 leaves a sample no other to be compared with by the method "
                    f"{self.method!r}: all advantages are 0, and nothing would be trained; "
                    "allowed with it: 2 or more"
                )
                continue
            if method.credit_row.order is None or group_size == 1:
                continue
            # Rewards at different distances from each other, so that no advantage is 0 by chance.
            rewards = 1 + np.square(np.arange(group_size, dtype=float))[None]
            if not advantages(rewards, method, k).any():
                if method.credit_row.uses_k:
                    where = f"{field}: {k} is {called}, where"
                    allowed = f"1 to {group_size - 1}"
                else:
                    where = f"method: in groups of {called} ({group_size})"
                    allowed = "another baseline"
                yield (
                    f"{where} every sample has the same credit, and the baseline "
                    f"{method.baseline!r} of the method {self.method!r} leaves 0 of each: nothing "
                    f"would be trained; allowed with it: {allowed}"
                )
