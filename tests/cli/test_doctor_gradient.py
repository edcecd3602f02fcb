"""`maxatk doctor --engines`: a gradient of a training is told from a broken one."""

import pytest
import torch

from maxatk.cli.doctor_gradient import try_gradient

attention = torch.nn.functional.scaled_dot_product_attention


def test_a_gradient_of_padded_rows_that_is_right_is_said_to_be():
    (part,) = try_gradient()
    assert part.holds
    assert part.name == "training"
    assert "a cosine of 1.0000 with that of the rows alone; float32 on cpu" in part.reason


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda gradient: torch.full_like(gradient, torch.nan), "is NaN or infinite; float32"),
        (lambda gradient: gradient * 9 * torch.rand_like(gradient), "a cosine of 0."),
    ],
    ids=["NaN", "another"],
)
def test_kernels_with_a_broken_gradient_are_noticed(monkeypatch, broken, reason):
    def with_broken_gradient(query, *args, **settings):
        output = attention(query, *args, **settings)
        if output.requires_grad:
            output.register_hook(broken)
        return output

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", with_broken_gradient)
    (part,) = try_gradient()
    assert not part.holds
    assert reason in part.reason


def test_an_error_of_a_kernel_is_a_line(monkeypatch):
    def no_kernel(*args, **settings):
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", no_kernel)
    (part,) = try_gradient()
    assert not part.holds
    assert part.reason.startswith("RuntimeError: no kernel image is available (")
