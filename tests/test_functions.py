"""A function that a setting names: a file is run once, as a module is."""

import sys

import pytest

from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.objectives.objective import Objective

RUN_ONCE = """
with open({log!r}, "a") as log:
    log.write("run\\n")


def best(rewards):
    return max(rewards)
"""


@pytest.fixture
def own(tmp_path):
    """Return a file with a function, and how often it has been run."""
    log = tmp_path / "log"
    path = tmp_path / "own.py"
    path.write_text(RUN_ONCE.format(log=str(log)))
    return path, lambda: log.read_text().count("run")


def test_a_file_is_run_once_whoever_asks_for_its_function(own):
    path, runs = own
    first = load_function(f"{path}:best", field="reward")
    assert load_function(f"{path}:best", field="method.statistic") is first
    for _ in range(2):
        assert not Objective(method={"statistic": f"{path}:best"}, k=2).problems(4)
    assert runs() == 1


def test_a_file_that_has_changed_is_run_again(own):
    path, runs = own
    load_function(f"{path}:best", field="reward")
    path.write_text(path.read_text().replace("max(rewards)", "-1.0"))
    assert load_function(f"{path}:best", field="reward")([1.0, 2.0]) == -1.0
    assert runs() == 2


def test_of_a_file_that_fails_nothing_is_kept(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import not_there_yet\n\n\ndef best(rewards):\n    return max(rewards)\n")
    before = set(sys.modules)
    for _ in range(2):
        with pytest.raises(InvalidValueError, match="cannot be imported: ModuleNotFoundError"):
            load_function(f"{path}:best", field="reward")
    assert set(sys.modules) == before
