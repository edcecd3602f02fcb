"""The settings `algorithm.maxatk.*` of verl's configuration, and what they do not go with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.objectives import method_of
from maxatk.objectives.objective import Objective
from maxatk.settings import from_mapping

WHERE = "algorithm.maxatk"
REWARD = "score"
"""The key of what a reward function returns that is the reward."""

MODE = "maxatk_sync"
"""The value of `trainer.v1.trainer_mode` that chooses the trainer of this package."""

CURRENT = "current"
"""The key of `algorithm.maxatk` in which the trainer tells the estimator the advantage of a row."""


def read_objective(algorithm: Mapping[str, Any]) -> Objective:
    """Return the objective of the keys below `algorithm.maxatk` of verl's configuration.

    They are the fields of `Objective` but for `form`, which is verl's "ppo", and `answers`, which
    verl does not hand over.

    Raises InvalidValueError for a missing or unknown key, a value of another type and a method
    that is none; the rest is found by `problems_of`.
    """
    found = algorithm.get("maxatk") or {}
    given = {name: _plain(found[name]) for name in found if name != CURRENT}
    if not given:
        raise InvalidValueError(
            f"{WHERE}: the estimator 'maxatk' needs a method and a k; add +{WHERE}.method=bon_loo1 "
            f"+{WHERE}.k=4"
        )
    for name in given.keys() & {"form", "answers"}:
        raise InvalidValueError(f"{WHERE}.{name}: is no setting under verl; leave it out")
    objective = from_mapping(Objective, given, where=WHERE)
    try:
        method = method_of(objective.method)
    except InvalidValueError as error:
        raise InvalidValueError(f"{WHERE}.method: {error}") from error
    if method.kind.needs_answers:
        raise InvalidValueError(
            f"{WHERE}.method: {objective.method} looks at answers, which verl does not hand over"
        )
    return objective


def problems_of(objective: Objective, group_size: int) -> list[str]:
    """Return what is not allowed in groups of that many samples, each with its setting."""
    found = objective.problems(group_size, called="actor_rollout_ref.rollout.n")
    if objective.selection == REWARD:
        found.append(
            f"selection: {REWARD!r} is the reward itself, which selects without a selection; name "
            "another key that the reward function returns"
        )
    return [f"{WHERE}.{problem}" for problem in found]


def needs_trainer(objective: Objective) -> str:
    """Return the first setting that a trainer of verl's own cannot serve, or ""."""
    needed = {
        "k_schedule": objective.k_schedule != "constant",
        "method": objective.needs_ratios,
        "selection": objective.selection is not None,
        "advantage_scale": objective.advantage_scale == "batch",
    }
    return next((f"{name}={getattr(objective, name)}" for name, no in needed.items() if no), "")


def _plain(value: Any) -> Any:
    """Return a value of verl's configuration with dicts and lists for OmegaConf's classes."""
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def check_config(config: Any) -> Objective:
    """Return the objective of a run of `maxatk_sync`, all of verl's configuration looked at.

    Raises InvalidValueError with everything that is wrong, each with its setting and remedy.
    """
    wrong = list(_settings(config))
    try:
        objective = read_objective(config.algorithm)
    except MaxAtKError as error:
        raise _refusal([str(error), *wrong]) from error
    wrong += problems_of(objective, config.actor_rollout_ref.rollout.n)
    if objective.needs_ratios:
        wrong += _correction(config)
    if wrong:
        raise _refusal(wrong)
    return objective


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
    yield from _passes(config)


def _passes(config: Any) -> Iterator[str]:
    """Yield sizes of the passes for log-probabilities that do not divide what a rank has.

    verl finds out after all samples of a rollout batch are drawn and rewarded.
    """
    parts = config.actor_rollout_ref
    prompts, n, ranks = config.data.train_batch_size, parts.rollout.n, data_parallel(config)
    runs = {
        "rollout": not keeps_sampler_log_probs(config),
        "ref": parts.actor.get("use_kl_loss"),
    }
    for name in (name for name, does in runs.items() if does):
        part = parts.get(name) or {}
        micro = part.get("log_prob_micro_batch_size_per_gpu")
        if micro and not part.get("log_prob_use_dynamic_bsz") and prompts * n % (ranks * micro):
            yield (
                f"actor_rollout_ref.{name}.log_prob_micro_batch_size_per_gpu: must divide what "
                f"each of {ranks} ranks has of {prompts} prompts x {n} samples, got {micro}"
            )


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
