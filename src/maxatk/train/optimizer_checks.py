"""The optimizer and the schedule of the learning rate, looked at before there is a model.

The trainer makes both when the model is loaded, and a distillation when all samples are drawn.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer, get_scheduler

from maxatk.errors import InvalidValueError, MissingDependencyError

# These look for layers of the model by name, of which there are none yet.
_OF_THE_MODEL = ("galore", "apollo", "lomo", "adalomo")

_MANY_STEPS = 1 << 20  # where the epochs say how many there are


def check_optimizer(config: Any) -> None:
    """Refuse settings of which transformers makes no optimizer, or no schedule of its rate.

    Raises InvalidValueError, and MissingDependencyError where the optimizer's package is missing.
    """
    layer = torch.nn.Linear(1, 1)
    name = str(config.optim.value)
    try:
        Trainer.get_optimizer_cls_and_kwargs(config, layer)
    except ImportError as error:
        raise MissingDependencyError(f"optim: {name!r}: {error}") from error
    except (ValueError, TypeError) as error:
        if not name.startswith(_OF_THE_MODEL):
            field = "optim_args" if config.optim_args else "optim"
            value = config.optim_args or name
            raise InvalidValueError(f"{field}: {value!r}: {error}") from error
    _check_schedule(config, layer)


def _check_schedule(config: Any, layer: torch.nn.Module) -> None:
    """Refuse a schedule that cannot be made, or fails at the last step."""
    steps = config.max_steps if config.max_steps > 0 else _MANY_STEPS
    name = str(config.lr_scheduler_type.value)
    try:
        schedule = get_scheduler(
            name,
            optimizer=torch.optim.SGD(layer.parameters(), lr=config.learning_rate),
            num_warmup_steps=config.get_warmup_steps(steps),
            num_training_steps=steps,
            scheduler_specific_kwargs=config.lr_scheduler_kwargs,
        )
        for factor in getattr(schedule, "lr_lambdas", ()):
            factor(steps - 1)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidValueError(
            f"lr_scheduler_kwargs: {config.lr_scheduler_kwargs!r} with lr_scheduler_type {name!r}: "
            f"{error}"
        ) from error
