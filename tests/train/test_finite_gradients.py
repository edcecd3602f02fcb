"""A gradient that is not finite moves no weight, and three in a row end the training."""

import math

import pytest
import torch

from maxatk.errors import InvalidValueError
from train.conftest import text_reward
from train.launching import TORCHRUN, launched
from train.weights import WeightsAfterSteps, are_equal, break_gradients, copied


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    "settings",
    [{}, {"optim": "adamw_torch_fused", "weight_decay": 0.1}, {"max_grad_norm": 0.0}],
    ids=["sgd", "adam", "no clipping"],
)
def test_a_gradient_that_is_not_finite_moves_no_weight(make_trainer, value, settings):
    trainer = make_trainer(text_reward, max_steps=3, **settings)
    break_gradients(trainer.model, value, passes=[1])
    after = WeightsAfterSteps()
    trainer.add_callback(after)
    with pytest.warns(UserWarning, match="train: the gradient of step 2 is NaN or infinite"):
        trainer.train()
    first, second, third = after.weights
    assert are_equal(second, first)
    assert not are_equal(third, second)
    assert all(torch.isfinite(weight).all() for weight in third.values())


@pytest.mark.filterwarnings("ignore:train. the gradient")
def test_three_of_them_in_a_row_end_the_training(make_trainer):
    trainer = make_trainer(text_reward, max_steps=6)
    before = copied(trainer.model)
    break_gradients(trainer.model, math.nan, passes=range(6))
    with pytest.raises(InvalidValueError, match="the gradient of step 3 and of the 2 before"):
        trainer.train()
    assert are_equal(trainer.model.state_dict(), before)


@pytest.mark.filterwarnings("ignore:train. the gradient")
def test_two_of_them_and_two_more_do_not(make_trainer):
    trainer = make_trainer(text_reward, max_steps=6)
    break_gradients(trainer.model, math.nan, passes=[0, 1, 3, 4])
    trainer.train()
    assert trainer.state.global_step == 6


def test_on_a_cpu_fp16_has_no_scaler_that_would_leave_the_step_out(make_trainer):
    trainer = make_trainer(text_reward, max_steps=2, fp16=True)
    break_gradients(trainer.model, math.nan, passes=[0])
    with pytest.warns(UserWarning, match="train: the gradient of step 1 is NaN or infinite"):
        trainer.train()
    assert all(torch.isfinite(weight).all() for weight in trainer.model.state_dict().values())


@pytest.mark.parametrize("broken", [39, 40])
def test_a_scaler_may_leave_out_many_steps_but_not_all(make_trainer, broken, recwarn):
    trainer = make_trainer(text_reward, max_steps=42, max_completion_length=2)
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu")  # as accelerate has one on a GPU
    before = copied(trainer.model)
    break_gradients(trainer.model, math.nan, passes=range(broken))
    if broken == 39:
        trainer.train()
        assert not are_equal(trainer.model.state_dict(), before)
        assert all(torch.isfinite(weight).all() for weight in trainer.model.state_dict().values())
    else:
        with pytest.raises(InvalidValueError, match="the gradient of step 40 and of the 39 before"):
            trainer.train()
        assert are_equal(trainer.model.state_dict(), before)
    assert not [warning for warning in recwarn if "moves no weight" in str(warning.message)]


@pytest.mark.long
def test_all_processes_leave_out_a_step_that_one_has_no_gradient_for(model_folder, tmp_path):
    launched(TORCHRUN, "one_broken_gradient.py", model_folder, tmp_path)
    ranks = [torch.load(tmp_path / f"rank-{rank}.pt") for rank in (0, 1)]
    for first, second in zip(*ranks, strict=True):
        assert are_equal(first, second)
    assert are_equal(ranks[0][1], ranks[0][0])
    assert not are_equal(ranks[0][2], ranks[0][1])


def test_a_step_is_taken_without_the_attention_of_cudnn(make_trainer):
    """Its gradient is NaN on some GPUs where prompts are padded."""
    allowed = []
    trainer = make_trainer(text_reward, max_steps=1)

    def look(*_):
        if torch.is_grad_enabled():
            allowed.append(torch.backends.cuda.cudnn_sdp_enabled())

    trainer.model.register_forward_pre_hook(look)
    assert torch.backends.cuda.cudnn_sdp_enabled()
    trainer.train()
    assert allowed
    assert not any(allowed)
    assert torch.backends.cuda.cudnn_sdp_enabled()
