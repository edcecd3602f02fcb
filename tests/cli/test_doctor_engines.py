"""`maxatk doctor --engines`: an engine is told from one that computes something else."""

import pytest
import torch

from maxatk.cli import doctor_engines
from maxatk.sampling import load_backend


@pytest.fixture(autouse=True)
def one_engine(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(doctor_engines, "_PACKAGES", {"hf": "torch", "none": "no_such_package"})


def test_an_engine_that_works_is_said_to(capfd):
    (part,) = doctor_engines.try_engines()
    assert (part.name, part.holds) == ("hf", True)
    assert "of 8 samples; log-probabilities within" in part.reason
    assert "float32 on cpu" in part.reason


def test_an_engine_with_other_weights_is_noticed(monkeypatch):
    def disturbed(model, settings):
        backend = load_backend(model, settings)
        with torch.no_grad():
            for weights in backend.model.parameters():
                weights += 0.3 * weights.std() * torch.randn_like(weights)
        return backend

    monkeypatch.setattr(doctor_engines, "load_backend", disturbed)
    (part,) = doctor_engines.try_engines()
    assert not part.holds


def test_an_engine_that_does_not_start_is_a_line(monkeypatch):
    def broken(model, settings):
        raise RuntimeError("no kernel image is available\nfor execution")

    monkeypatch.setattr(doctor_engines, "load_backend", broken)
    (part,) = doctor_engines.try_engines()
    assert not part.holds
    assert part.reason.startswith("RuntimeError: no kernel image is available (")
