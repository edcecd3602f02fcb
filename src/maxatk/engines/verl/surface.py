"""The parts of verl that the plug-in builds on, checked before they are relied on."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
from importlib import metadata
from typing import Any

from maxatk.errors import MissingDependencyError

REMEDY = "pip install 'maxatk[verl]'"

VERSIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "verl": ((0, 9), (0, 10)),
    "ray": ((2, 41), (3,)),
    "TransferQueue": ((0, 1, 10), (0, 2)),
}
"""Distribution -> from this version up to, and without, that one."""

_BASE = "verl.trainer.ppo.v1.trainer_base"

_USED: dict[str, tuple[str, ...]] = {
    "verl.trainer.ppo.core_algos:register_adv_est": (),
    f"{_BASE}:register_trainer": (),
    f"{_BASE}:PPOTrainer._setup": (),
    f"{_BASE}:PPOTrainer._init_dataloader": (),
    f"{_BASE}:PPOTrainer._save_checkpoint": (),
    f"{_BASE}:PPOTrainer._load_checkpoint": (),
    f"{_BASE}:PPOTrainer._balance_batch": ("batch", "metrics"),
    f"{_BASE}:PPOTrainer._compute_advantage": ("batch", "metrics"),
    f"{_BASE}:PPOTrainer._update_actor": ("batch", "metrics"),
    f"{_BASE}:PPOTrainer._val_metrics_update": (
        "data_sources",
        "sample_uids",
        "reward_extra_infos_dict",
    ),
    "verl.trainer.ppo.v1.trainer_sync:PPOTrainerSync": (),
    "verl.trainer.ppo.padding_utils:upsample_batch_to_divisible_size": (
        "batch",
        "batch_multiple",
        "eos_token_id",
    ),
    "verl.workers.engine_workers:ActorRolloutRefWorker.set_loss_fn": ("loss_fn",),
    "verl.workers.utils.losses:ppo_loss": ("config", "model_output", "data", "dp_group"),
    "verl.workers.utils.padding:no_padding_2_padding": ("tensor", "data"),
    "verl.workers.utils.padding:response_from_nested": ("tensor", "response_mask"),
}
"""Name in verl -> parameters that this package passes or receives by these names."""

_IN_SOURCE = {
    "verl.workers.engine.utils:prepare_micro_batches": '"force_group_size"',
    f"{_BASE}:PPOTrainer._update_actor": "batch.extra_info.update",
}
"""Name in verl -> what its source has to say, where no signature tells."""

_REGISTERED = {
    "verl.trainer.ppo.core_algos:ADV_ESTIMATOR_REGISTRY": "maxatk",
    f"{_BASE}:TRAINER_REGISTRY": "maxatk_sync",
}
"""Table of verl -> what the entry points of this package have put there."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One thing the plug-in needs: whether it holds, and why not."""

    name: str
    holds: bool
    reason: str = ""


def surface() -> list[Part]:
    """Return what the plug-in needs of the installed verl, part by part; never raises."""
    parts = [_version(name) for name in VERSIONS]
    if all(part.holds for part in parts):
        parts += [_signature(name, wanted) for name, wanted in _USED.items()]
        parts += [_source(name, text) for name, text in _IN_SOURCE.items()]
    return parts


def registrations() -> list[Part]:
    """Return whether verl knows the estimator and the trainer; never raises."""
    found = []
    for table, name in _REGISTERED.items():
        rows, reason = _found(table)
        holds = rows is not None and name in rows
        reason = reason or "the entry point did not load; import it to see why"
        found.append(Part(f"{name} in {table}", holds, "" if holds else reason))
    return found


def check_surface() -> None:
    """Raise MissingDependencyError with everything that the installed verl lacks."""
    missing = [f"{part.name}: {part.reason}" for part in surface() if not part.holds]
    if missing:
        raise MissingDependencyError(
            "verl does not fit this plug-in:\n- " + "\n- ".join(missing) + f"\n{REMEDY}"
        )


def _version(name: str) -> Part:
    least, below = VERSIONS[name]
    wanted = f"{'.'.join(map(str, least))} or newer, below {'.'.join(map(str, below))}"
    try:
        text = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Part(name, False, f"is not installed; it must be {wanted}")
    numbers = tuple(int(part) for part in text.split(".")[:3] if part.isdigit())
    holds = least <= numbers < below
    return Part(f"{name} {text}", holds, "" if holds else f"must be {wanted}")


def _signature(name: str, wanted: tuple[str, ...]) -> Part:
    found, reason = _found(name)
    if found is None:
        return Part(name, False, reason)
    lacking = [one for one in wanted if one not in inspect.signature(found).parameters]
    return Part(name, not lacking, f"has no parameter {', '.join(lacking)}" if lacking else "")


def _source(name: str, text: str) -> Part:
    found, reason = _found(name)
    holds = found is not None and text in inspect.getsource(found)
    return Part(f"{text} in {name}", holds, "" if holds else reason or "is not in its source")


def _found(name: str) -> tuple[Any, str]:
    """Return what a name `module:attribute` stands for, or None and why there is nothing."""
    try:
        return pkgutil.resolve_name(name), ""
    except Exception as error:  # whatever the import of verl raises is the reason
        return None, f"{type(error).__name__}: {error}"
