"""The settings `algorithm.maxatk.*` of verl's configuration, and what they do not go with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from maxatk.engines.groups import Groups
from maxatk.errors import InvalidValueError, MaxAtKError, unknown_name
from maxatk.objectives import METHODS, Method, check_group_size, method_of
from maxatk.objectives.objective import SCHEDULES, Beside, Objective
from maxatk.objectives.scale import SCALES, AdvantageScale
from maxatk.settings import from_mapping

WHERE = "algorithm.maxatk"
REWARD = "score"
"""The key of what a reward function returns that is the reward."""

MODE = "maxatk_sync"
"""The value of `trainer.v1.trainer_mode` that chooses the trainer of this package."""

CURRENT = "current"
"""The key of `algorithm.maxatk` in which the trainer tells the estimator the advantage of a row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What is trained for: the keys of `algorithm.maxatk`.

    Args:
        method: A name in `maxatk.METHODS`, or a mapping for `maxatk.objectives.method_of`.
        k: The k of max@k, at most `actor_rollout_ref.rollout.n`; in the log also of a method that
            has none.
        selection: Key of what the reward function returns beside `score` that selects and is not
            rewarded: the objective is the reward of the sample that its values would choose.
        k_schedule: How k moves to `k_final` over the training: a name in `SCHEDULES`.
        k_final: The k at the end of a schedule, in the middle of one that comes back; by default 1.
        max_weight: Share of max@k in the objective; the rest is max@1.
        delta_clamp: Bound on |rho - 1| of the importance ratios in a correction; None for none.
        advantage_scale: "mean" multiplies a credit that is summed over the samples of a group by
            their number, because verl's losses are means; "sum" leaves eq. (9) as it is; "batch"
            divides by one running root mean square.

    Raises InvalidValueError naming the field, its value and what is allowed.
    """

    method: str | dict[str, Any]
    k: int
    selection: str | None = None
    k_schedule: str = "constant"
    k_final: int | None = None
    max_weight: float = 1.0
    delta_clamp: float | None = 0.5
    advantage_scale: str = "mean"

    def __post_init__(self) -> None:
        names = {"k_schedule": SCHEDULES, "advantage_scale": SCALES}
        if not isinstance(self.method, Mapping):
            names["method"] = METHODS
        for field, allowed in names.items():
            if getattr(self, field) not in allowed:
                raise unknown_name(f"{WHERE}.{field}", str(getattr(self, field)), allowed)
        self._check_method()
        if self.k_final is not None and self.k_schedule == "constant":
            raise InvalidValueError(f"{WHERE}.k_final: {self.k_final} needs a k_schedule")
        for field, valid, allowed in (
            ("k", self.k >= 1, "1 or more"),
            ("k_final", self.k_final is None or self.k_final >= 1, "1 or more"),
            ("max_weight", 0 <= self.max_weight <= 1, "from 0 to 1"),
            ("delta_clamp", self.delta_clamp is None or self.delta_clamp > 0, "positive or null"),
        ):
            if not valid:
                raise InvalidValueError(
                    f"{WHERE}.{field}: must be {allowed}, got {getattr(self, field)}"
                )

    def _check_method(self) -> None:
        try:
            kind = self.row.kind
        except InvalidValueError as error:
            raise InvalidValueError(f"{WHERE}.method: {error}") from error
        if self.selection is None:
            return
        if kind.order is None:
            raise InvalidValueError(
                f"{WHERE}.selection: {self.selection!r} has no effect on the method {self.method}, "
                "which orders no samples; allowed with it: null"
            )
        if self.selection == REWARD:
            raise InvalidValueError(
                f"{WHERE}.selection: {REWARD!r} is the reward itself, which selects without a "
                "selection; name another key that the reward function returns"
            )

    @property
    def row(self) -> Method:
        """Return the method as a row: what its name or its mapping stands for."""
        return method_of(self.method)

    @property
    def objective(self) -> Objective:
        """Return what these settings train for, over the whole training."""
        final = self.k if self.k_schedule == "constant" else (self.k_final or 1)
        return Objective(
            self.row, self.k, final, self.k_schedule, self.max_weight, "ppo", self.delta_clamp
        )

    @property
    def corrects(self) -> bool:
        """Return whether the advantages change with the importance ratios of the whole group."""
        return self.row.correction != "none"

    @property
    def needs_trainer(self) -> str:
        """Return the first setting that a trainer of verl's own cannot serve, or ""."""
        needed = {
            "k_schedule": self.k_schedule != "constant",
            "method": self.corrects,
            "selection": self.selection is not None,
            "advantage_scale": self.advantage_scale == "batch",
        }
        return next(
            (f"{name}={getattr(self, name)}" for name, wanted in needed.items() if wanted), ""
        )

    def k_at(self, progress: float) -> int:
        """Return the k after a share of the training, 0 to 1."""
        return self.objective.k_at(progress)

    def scale(self) -> AdvantageScale:
        """Return what the advantages are multiplied by; it has seen none yet."""
        return AdvantageScale(self.advantage_scale, self.row)

    def advantages(
        self,
        ids: Any,
        rewards: Any,
        *,
        k: int,
        group_size: int,
        log_ratios: Any = None,
        selection: Any = None,
    ) -> np.ndarray:
        """Return one unscaled advantage a row (N,), for rows with group ids `ids` (N,).

        Args:
            ids: Group id of every row; rows with the same id are the samples of a prompt.
            rewards: Reward of every row (N,); NaN where it could not be scored.
            k: The k of the moment.
            group_size: Samples drawn a prompt; a group with fewer rows has lost the others.
            log_ratios: log pi_theta - log pi_old of every row's sequence (N,), in nats, or None.
            selection: Score of every row (N,) that selects, NaN where there is none, or None.

        Raises what `maxatk.advantages` raises.
        """
        groups = Groups.of(ids, least=group_size)
        ratios = None if log_ratios is None else groups.table(log_ratios, fill=0.0)
        beside = Beside() if selection is None else Beside(selection=groups.table(selection))
        found = self.objective.advantages(
            groups.table(rewards), k, log_ratios=ratios, beside=beside
        )
        return groups.rows(found)


def read_options(algorithm: Mapping[str, Any]) -> Options:
    """Return the settings below `algorithm` of verl's configuration.

    Raises InvalidValueError for a missing or unknown key and for a value that is not allowed.
    """
    found = algorithm.get("maxatk") or {}
    given = {name: _plain(found[name]) for name in found if name != CURRENT}
    if not given:
        raise InvalidValueError(
            f"{WHERE}: the estimator 'maxatk' needs a method and a k; add +{WHERE}.method=bon_loo1 "
            f"+{WHERE}.k=4"
        )
    return from_mapping(Options, given, where=WHERE)


def _plain(value: Any) -> Any:
    """Return a value of verl's configuration with dicts and lists for OmegaConf's classes."""
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def check_config(config: Any) -> Options:
    """Return the settings of a run of `maxatk_sync`, all of verl's configuration looked at.

    Raises InvalidValueError with everything that is wrong, each with its setting and remedy.
    """
    try:
        options = read_options(config.algorithm)
    except MaxAtKError as error:
        wrong = [str(error), *_settings(config)]
        raise _refusal(wrong) from error
    wrong = [*_settings(config), *_objective(config, options)]
    if options.corrects:
        wrong += _correction(config)
    if wrong:
        raise _refusal(wrong)
    return options


def holds_whole_groups(config: Any) -> bool:
    """Say whether every micro-batch of the actor can hold whole groups of `rollout.n` rows.

    Then the loss itself knows all importance ratios of a group; else a forward pass before each
    optimizer step has to find them.
    """
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    if actor.ppo_mini_batch_size % data_parallel(config):
        return False
    if actor.use_dynamic_bsz:
        longest = config.data.max_prompt_length + config.data.max_response_length
        return bool(n * longest <= actor.ppo_max_token_len_per_gpu * _sequence_parallel(actor))
    return bool(actor.ppo_micro_batch_size_per_gpu % n == 0)


def keeps_sampler_log_probs(config: Any) -> bool:
    """Say whether `old_log_probs` are those of the sampler: then the first step has ratios too."""
    found = config.algorithm.get("rollout_correction")
    return bool(found and found.get("bypass_mode", False))


def data_parallel(config: Any) -> int:
    """Return how many ranks share the rows of a mini-batch."""
    actor = config.actor_rollout_ref.actor
    ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
    if actor.strategy == "megatron":
        sizes = actor.megatron
        split = sizes.tensor_model_parallel_size * sizes.pipeline_model_parallel_size
        return int(ranks // (split * sizes.get("context_parallel_size", 1)))
    return int(ranks // _sequence_parallel(actor))


def _sequence_parallel(actor: Any) -> int:
    """Return how many ranks share a sequence: verl has two names for it, an old and a new one."""
    name = "ulysses_sequence_parallel_size"
    engine = actor.get("fsdp_config") or {}
    return max(actor.get(name) or 1, engine.get(name) or 1)


def _refusal(wrong: list[str]) -> InvalidValueError:
    return InvalidValueError("verl cannot train with these settings:\n- " + "\n- ".join(wrong))


def _settings(config: Any) -> Iterator[str]:
    """Yield what is wrong with verl's own settings under any method."""
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    if config.algorithm.adv_estimator != "maxatk":
        yield (
            f"algorithm.adv_estimator: {config.algorithm.adv_estimator} is not this package's; "
            f"trainer.v1.trainer_mode={MODE} needs algorithm.adv_estimator=maxatk"
        )
    if rollout.n < 2:
        yield f"actor_rollout_ref.rollout.n: must be at least 2 samples a prompt, got {rollout.n}"
    if config.algorithm.get("use_kl_in_reward"):
        yield (
            "algorithm.use_kl_in_reward: must be False, else max@k of a penalised reward is "
            "trained; use actor_rollout_ref.actor.use_kl_loss=True"
        )
    if config.data.train_batch_size % actor.ppo_mini_batch_size:
        yield (
            f"actor_rollout_ref.actor.ppo_mini_batch_size: {actor.ppo_mini_batch_size} prompts do "
            f"not divide data.train_batch_size={config.data.train_batch_size}"
        )


def _objective(config: Any, options: Options) -> Iterator[str]:
    """Yield what the objective does not have in groups of `rollout.n` samples."""
    n, row = config.actor_rollout_ref.rollout.n, options.row
    if row.kind.needs_answers:
        yield f"{WHERE}.method: {options.method} looks at answers, which verl does not hand over"
        return
    for field in ("k", "k_final"):
        k = getattr(options, field)
        if k is not None and k > n:
            yield f"{WHERE}.{field}: must be at most actor_rollout_ref.rollout.n={n}, got {k}"
    if options.k <= n:
        try:
            check_group_size(row, options.k, n)
        except MaxAtKError as error:
            yield f"{WHERE}: {error}"
        if row.kind.uses_k and n > 1 and row.is_silent(options.k, n):
            yield (
                f"{WHERE}.k: {options.k} leaves every advantage of {options.method} at 0 in groups "
                f"of actor_rollout_ref.rollout.n={n}"
            )
    if options.max_weight < 1 and not row.kind.uses_k:
        yield f"{WHERE}.max_weight: must be 1 with the method {options.method}, which has no k"


def _correction(config: Any) -> Iterator[str]:
    """Yield what does not go with importance ratios of whole groups."""
    actor, n = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
    if actor.get("shuffle"):
        yield "actor_rollout_ref.actor.shuffle: must be False, because it splits groups"
    if actor.policy_loss.get("loss_mode", "vanilla") != "vanilla":
        yield (
            "actor_rollout_ref.actor.policy_loss.loss_mode: must be vanilla, whose surrogate has "
            f"the sample's own ratio; got {actor.policy_loss.loss_mode}"
        )
    if (config.algorithm.get("rollout_correction") or {}).get("rollout_is"):
        yield (
            "algorithm.rollout_correction.rollout_is: must be null, because the importance ratios "
            "of the correction would be counted twice; allowed beside it: bypass_mode=True"
        )
    ranks, mini = data_parallel(config), actor.ppo_mini_batch_size
    if mini * n % ranks:
        yield (
            f"actor_rollout_ref.actor.ppo_mini_batch_size: {mini} prompts x {n} samples do not "
            f"divide into {ranks} ranks"
        )
    elif not actor.use_dynamic_bsz:
        micro, rows = actor.ppo_micro_batch_size_per_gpu, mini * n // ranks
        if micro is None or rows % micro:
            yield (
                f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: must divide the {rows} "
                f"samples that a rank has of a mini-batch, got {micro}"
            )
