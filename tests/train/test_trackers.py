"""What `report_to` sends to a tracker can be read back from it."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def test_tensorboard_gets_the_groups_of_every_step(make_trainer, monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer = make_trainer(report_to="tensorboard", max_steps=3)
    trainer.train()
    found = EventAccumulator(str(tmp_path / "events"))
    found.Reload()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    for key in ("max@1", "max@2", "max@4", "frac_groups_without_signal", "objective/k"):
        events = found.Scalars(f"train/{key}")
        assert [event.step for event in events] == [1, 2, 3]
        expected = [row[key] for row in logged]
        assert [event.value for event in events] == pytest.approx(expected)
