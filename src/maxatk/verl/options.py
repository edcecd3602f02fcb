"""The settings `algorithm.maxatk.*` of verl's configuration, and what they do not go with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxatk.check import require, whole
from maxatk.errors import InvalidValueError, MaxAtKError
from maxatk.objectives import method_of
from maxatk.objectives.objective import Objective
from maxatk.settings import from_mapping

WHERE = "algorithm.maxatk"
_PARTS = "actor_rollout_ref"
_REWARD = "score"  # the key of what a reward function returns that is the reward

# Values of trainer.v1.trainer_mode.
MODE = "maxatk_sync"
ASYNC_MODE = "maxatk_separate_async"

CURRENT = "current"  # the key in which the trainer tells the estimator the advantage of a row
SESSIONS = "sessions"  # the key in which it is told the session of a row under a trainer of verl's
_KEPT = "log_groups"  # the key that is about the record and not about the objective


def read_objective(algorithm: Mapping[str, Any]) -> Objective:
    """Return the objective of the keys below `algorithm.maxatk` of verl's configuration.

    Raises InvalidValueError for a missing or unknown key and a value that is never allowed; what is
    not allowed in groups of one size is found by `problems_of`.
    """
    keys = algorithm.get("maxatk") or {}
    require(isinstance(keys, Mapping), WHERE, "keys with values, as +algorithm.maxatk.k=4", keys)
    settings = {name: _plain(keys[name]) for name in keys if name not in (CURRENT, SESSIONS, _KEPT)}
    if not settings:
        raise InvalidValueError(
            f"{WHERE}: the estimator 'maxatk' needs a method and a k; add +{WHERE}.method=bon_loo1 "
            f"+{WHERE}.k=4"
        )
    for name in ("form", "answers"):
        if name in settings:
            raise InvalidValueError(f"{WHERE}.{name}: is no setting under verl; leave it out")
    try:
        objective = from_mapping(Objective, settings, where=WHERE)
    except InvalidValueError as error:
        lines = str(error).split("\n")
        placed = [line if line.startswith(WHERE) else f"{WHERE}.{line}" for line in lines]
        raise InvalidValueError("\n".join(placed)) from error
    method = method_of(objective.method)
    if method.credit_row.needs_answers:
        raise InvalidValueError(
            f"{WHERE}.method: {objective.method} looks at answers, which verl does not hand over"
        )
    return objective


def groups_kept(algorithm: Mapping[str, Any]) -> int:
    """Return how many groups of a step groups.jsonl keeps; raises InvalidValueError for no int."""
    most: int = (algorithm.get("maxatk") or {}).get(_KEPT, 8)
    whole(f"{WHERE}.{_KEPT}", most, 0)
    return most


def problems_of(objective: Objective, group_size: int) -> list[str]:
    """Return what is not allowed in groups of that many samples, each with its setting."""
    problems = objective.problems(group_size, called="actor_rollout_ref.rollout.n")
    if objective.selection == _REWARD:
        problems.append(
            f"selection: {_REWARD!r} is the reward itself, which selects without a selection; name "
            "another key that the reward function returns"
        )
    return [f"{WHERE}.{problem}" for problem in problems]


def needs_trainer(objective: Objective) -> str:
    """Return the first setting that a trainer of verl's own cannot serve, or ""."""
    needed = {
        "k_schedule": objective.k_schedule != "constant",
        "method": objective.needs_ratios,
        "selection": objective.selection is not None,
        "advantage_scale": objective.advantage_scale == "batch",
    }
    for name, is_needed in needed.items():
        if is_needed:
            return f"{name}={getattr(objective, name)}"
    return ""


def penalty_in_rewards(algorithm: Mapping[str, Any]) -> str:
    """Return what is wrong with an `algorithm` that takes a penalty off the rewards, or ""."""
    if not algorithm.get("use_kl_in_reward"):
        return ""
    why = f"else max@k of a penalised reward is trained; use {_PARTS}.actor.use_kl_loss=True"
    return _must("algorithm.use_kl_in_reward", f"False, {why}", True)


def _plain(value: Any) -> Any:
    """Return a value of verl's configuration with dicts and lists for OmegaConf's classes."""
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def check_config(config: Any) -> Objective:
    """Return the objective of a run; raise InvalidValueError with all that is wrong in a config."""
    if data_parallel(config) < 1:  # every other size is a share of what a rank has
        ranks = config.trainer.n_gpus_per_node * config.trainer.nnodes
        allowed = "at least, on all nodes, the ranks that share a sequence or a copy of the model"
        raise InvalidValueError(_must("trainer.n_gpus_per_node", allowed, f"{ranks} in all"))
    wrong = list(_settings(config))
    try:
        objective = read_objective(config.algorithm)
        groups_kept(config.algorithm)
    except MaxAtKError as error:
        wrong.insert(0, str(error))
    else:
        wrong += problems_of(objective, config.actor_rollout_ref.rollout.n)
        if objective.needs_ratios:
            wrong += _correction(config)
    if wrong:
        raise InvalidValueError("\n- ".join(["verl cannot train with these settings:", *wrong]))
    return objective


def holds_whole_groups(config: Any) -> bool:
    """Return whether micro-batches of the actor hold whole groups: its loss has all ratios then."""
    actor = config.actor_rollout_ref.actor
    n = config.actor_rollout_ref.rollout.n
    if actor.ppo_mini_batch_size % data_parallel(config):
        return False
    if actor.use_dynamic_bsz:
        longest = config.data.max_prompt_length + config.data.max_response_length
        return bool(n * longest <= actor.ppo_max_token_len_per_gpu * _sequence_parallel(actor))
    micro = actor.ppo_micro_batch_size_per_gpu
    return bool(micro and micro % n == 0)  # verl's own default is null


def keeps_sampler_log_probs(config: Any) -> bool:
    """Return whether `old_log_probs` are the sampler's: then the first step has ratios too."""
    correction = config.algorithm.get("rollout_correction")
    return bool(correction and correction.get("bypass_mode", False))


def parts_of_rollout_batch(config: Any) -> int:
    """Return how many parts of a rollout batch verl takes one by one: 1 unless asynchronous."""
    if not _asynchronous(config):
        return 1
    return int(config.trainer.v1.separate_async.parameter_sync_step)


def _asynchronous(config: Any) -> bool:
    return bool((config.trainer.get("v1") or {}).get("trainer_mode") == ASYNC_MODE)


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


def _settings(config: Any) -> Iterator[str]:
    """Yield what is wrong with verl's own settings under any method."""
    algorithm = config.algorithm
    prompts = config.data.train_batch_size
    n = config.actor_rollout_ref.rollout.n
    mini = config.actor_rollout_ref.actor.ppo_mini_batch_size
    if algorithm.adv_estimator != "maxatk":
        why = f"the one of trainer.v1.trainer_mode={MODE}"
        yield _must("algorithm.adv_estimator", f"maxatk, {why}", algorithm.adv_estimator)
    if n < 2:
        yield _must(f"{_PARTS}.rollout.n", "at least 2 samples a prompt", n)
    penalty = penalty_in_rewards(algorithm)
    if penalty:
        yield penalty
    if prompts % mini:
        allowed = f"a divisor of data.train_batch_size={prompts}"
        yield _must(f"{_PARTS}.actor.ppo_mini_batch_size", allowed, mini)
    yield from _passes(config)


def _passes(config: Any) -> Iterator[str]:
    """Yield sizes of passes that do not divide what a rank has: verl finds out after sampling."""
    parts = config.actor_rollout_ref
    prompts = config.data.train_batch_size // parts_of_rollout_batch(config)
    n = parts.rollout.n
    ranks = data_parallel(config)
    is_taken = {
        "rollout": not keeps_sampler_log_probs(config),
        "ref": parts.actor.get("use_kl_loss"),
    }
    for name, taken in is_taken.items():
        part = parts.get(name) or {}
        micro = part.get("log_prob_micro_batch_size_per_gpu")
        if not taken or not micro or part.get("log_prob_use_dynamic_bsz"):
            continue
        if prompts * n % (ranks * micro):
            allowed = f"a divisor of what each of {ranks} ranks has of {prompts} prompts x {n}"
            yield _must(f"{_PARTS}.{name}.log_prob_micro_batch_size_per_gpu", allowed, micro)


def _correction(config: Any) -> Iterator[str]:
    """Yield what does not go with importance ratios of whole groups."""
    actor = config.actor_rollout_ref.actor
    n = config.actor_rollout_ref.rollout.n
    where = f"{_PARTS}.actor"
    if actor.get("shuffle"):
        yield _must(f"{where}.shuffle", "False, because it splits groups", True)
    loss = actor.policy_loss.get("loss_mode", "vanilla")
    if loss != "vanilla":
        allowed = "vanilla, whose surrogate has the sample's own ratio"
        yield _must(f"{where}.policy_loss.loss_mode", allowed, loss)
    weights = (config.algorithm.get("rollout_correction") or {}).get("rollout_is")
    if weights:
        allowed = "null, or ratios are counted twice; allowed beside it: bypass_mode=True"
        yield _must("algorithm.rollout_correction.rollout_is", allowed, weights)
    ranks = data_parallel(config)
    mini = actor.ppo_mini_batch_size
    micro = actor.ppo_micro_batch_size_per_gpu
    rows = mini * n / ranks
    if _asynchronous(config) and not keeps_sampler_log_probs(config):
        allowed = f"True with {ASYNC_MODE}, whose ratios are to the sampler's weights of some steps"
        yield _must("algorithm.rollout_correction.bypass_mode", f"{allowed} ago", False)
    if _asynchronous(config) and not holds_whole_groups(config):
        allowed = f"a multiple of rollout.n with {ASYNC_MODE}, whose loss corrects whole groups"
        yield _must(f"{where}.ppo_micro_batch_size_per_gpu", allowed, micro)
    if rows % 1:
        allowed = f"prompts whose {n} samples each divide into {ranks} ranks"
        yield _must(f"{where}.ppo_mini_batch_size", allowed, mini)
    elif not actor.use_dynamic_bsz and (not micro or rows % micro):
        allowed = f"a divisor of the {rows:.0f} samples that a rank has of a mini-batch"
        yield _must(f"{where}.ppo_micro_batch_size_per_gpu", allowed, micro)


def _must(setting: str, allowed: str, value: Any) -> str:
    return f"{setting}: must be {allowed}; got {value}"
