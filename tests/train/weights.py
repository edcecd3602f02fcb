"""What a training did to its weights, and gradients that are broken on the way."""

import torch
from transformers import TrainerCallback


def copied(model):
    """Return the weights as they are now, by name."""
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def are_equal(one, other):
    return one.keys() == other.keys() and all(
        torch.equal(weight, other[name]) for name, weight in one.items()
    )


def break_gradients(model, value, passes=None):
    """Make one weight's gradient `value` in these backward passes, counted from 0, or in all."""
    count = 0

    def broken(gradient):
        nonlocal count
        count += 1
        if passes is None or count - 1 in passes:
            return torch.full_like(gradient, value)
        return gradient

    next(model.parameters()).register_hook(broken)


class WeightsAfterSteps(TrainerCallback):
    """Keeps the weights after each optimizer step."""

    def __init__(self):
        self.weights = []

    def on_optimizer_step(self, args, state, control, *, model, **_):
        self.weights.append(copied(model))
