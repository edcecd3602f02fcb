"""A file that a setting names runs once, however often the setting is read."""

import sys

import pytest

from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.objectives import advantages, method_of
from maxatk.objectives.objective import Objective

COUNTED = """
from pathlib import Path
runs = Path(__file__).with_name("runs.txt")
runs.write_text((runs.read_text() if runs.exists() else "") + "x")

def statistic(rewards):
    return max(rewards)
"""


@pytest.fixture
def counted(tmp_path):
    (tmp_path / "own.py").write_text(COUNTED)
    return tmp_path / "own.py"


def runs(file):
    return len(file.with_name("runs.txt").read_text())


def test_a_file_runs_once_and_again_after_a_change(counted):
    first = load_function(f"{counted}:statistic", field="reward")
    assert load_function(f"{counted}:statistic", field="answers") is first
    assert runs(counted) == 1
    counted.write_text(COUNTED + "\nstatistic = max\n")
    assert load_function(f"{counted}:statistic", field="reward") is max
    assert runs(counted) == 2


def test_a_file_that_failed_runs_again(tmp_path):
    file = tmp_path / "late.py"
    file.write_text(
        "from pathlib import Path\nPath(__file__).with_name('ready').read_text()\nf = len\n"
    )
    with pytest.raises(InvalidValueError, match="cannot be imported"):
        load_function(f"{file}:f", field="reward")
    (tmp_path / "ready").write_text("")
    assert load_function(f"{file}:f", field="reward") is len


def test_an_objective_made_again_and_again_runs_its_statistic_once(counted):
    for _ in range(3):
        objective = Objective(method={"statistic": f"{counted}:statistic"}, k=2)
        assert objective.problems(4) == []
        assert not objective.needs_ratios
        assert method_of(objective.method).credit is not None
    assert runs(counted) == 1
    assert advantages([[0.0, 1.0, 0.5, 0.0]], method_of(objective.method), 2).any()


def test_a_training_config_runs_its_statistic_once(counted, tmp_path):
    config = pytest.importorskip("maxatk.train").MaxAtKConfig(
        output_dir=str(tmp_path),
        method={"statistic": f"{counted}:statistic"},
        k=2,
        num_generations=4,
        form="reinforce",
        use_cpu=True,
    )
    assert config.ratios_in_loss in (True, False)
    assert config.objective.needs_ratios
    assert runs(counted) == 1


def test_of_a_file_that_failed_nothing_is_kept(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import not_there_yet\n\n\ndef best(rewards):\n    return max(rewards)\n")
    before = set(sys.modules)
    with pytest.raises(InvalidValueError, match="cannot be imported: ModuleNotFoundError"):
        load_function(f"{file}:best", field="reward")
    assert set(sys.modules) == before
