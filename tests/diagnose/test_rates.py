"""The smallest learning rate that still learns, from the logs of short trainings."""

import json

import numpy as np
import pytest

from maxatk.cli.main import main
from maxatk.diagnose.rates import rate_rows, suggested_rate
from maxatk.errors import InvalidValueError
from maxatk.folders import TRAIN_RECORD


def log_of(rate, *, rise, rows=18, noise=0.01):
    """The log of a training whose reward rises in a line, with noise that alternates."""
    return [
        {
            "loss": 0.0,
            "learning_rate": rate * (1 - step / rows),
            "reward": 0.2 + rise * step / (rows - 1) + noise * (-1) ** step,
            "max@4": 0.5 - rise * step / (rows - 1),
        }
        for step in range(rows)
    ]


LOGS = {
    "large": log_of(4e-4, rise=0.4),
    "small": log_of(1e-4, rise=0.001),
    "middle": log_of(2e-4, rise=0.2),
}


def test_the_smallest_rate_that_learns_is_named_and_rows_come_by_rate():
    rows = rate_rows(LOGS)
    assert [row["training"] for row in rows] == ["small", "middle", "large"]
    assert [row["learning_rate"] for row in rows] == [1e-4, 2e-4, 4e-4]
    assert [row["learns"] for row in rows] == [False, True, True]
    rewards = [row["reward"] for row in LOGS["middle"]]
    first = rewards[:6]
    last = rewards[-6:]
    assert rows[1]["rise"] == pytest.approx(np.mean(last) - np.mean(first))
    variance = np.var(first, ddof=1) / 6 + np.var(last, ddof=1) / 6
    assert rows[1]["error"] == pytest.approx(variance**0.5)
    assert rows[1]["best_rise"] == pytest.approx(-0.2 * 12 / 17)
    assert suggested_rate(rows) == "the smallest rate that learns in so many steps is 0.0002"


def test_a_smaller_one_is_to_be_tried_where_all_learn_and_a_larger_one_where_none_does():
    assert "try half of it as well" in suggested_rate(rate_rows({"a": log_of(1e-4, rise=0.3)}))
    seeds = {"a": log_of(1e-4, rise=0.0), "b": log_of(1e-4, rise=0.3), "c": LOGS["middle"]}
    assert "try half of it as well" in suggested_rate(rate_rows(seeds))
    still = rate_rows({"a": log_of(1e-4, rise=0.0), "b": log_of(2e-4, rise=-0.3)})
    assert "no rate learns" in suggested_rate(still)


def test_a_log_that_is_too_short_or_without_its_rate_is_refused():
    with pytest.raises(InvalidValueError, match=r"short: its log must have 6 rows .* 5 and 5"):
        rate_rows({"short": log_of(1e-4, rise=0.1, rows=5)})
    without = [{"reward": 0.5} for _ in range(9)]
    with pytest.raises(InvalidValueError, match="9 and 0"):
        rate_rows({"other": without})


def test_the_command_takes_several_trainings_and_refuses_what_is_none(tmp_path, capsys):
    for name, log in LOGS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / TRAIN_RECORD).write_text(json.dumps({"log_history": log}))
    folders = [str(tmp_path / name) for name in LOGS]
    assert main(["diagnose", *folders]) == 0
    assert "the smallest rate that learns in so many steps is 0.0002" in capsys.readouterr().out
    assert main(["diagnose", *folders, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["learning_rate"] for row in printed["rates"]] == [1e-4, 2e-4, 4e-4]
    assert main(["diagnose", folders[0], str(tmp_path)]) == 2
    assert "must all be trainings" in capsys.readouterr().err
