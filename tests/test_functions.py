"""A file that a setting names runs once, however often the setting is read."""

import sys

import pytest

from maxatk.errors import InvalidValueError
from maxatk.functions import load_function
from maxatk.named_files import digest_of_file, files_named
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


@pytest.fixture
def with_a_helper(tmp_path, monkeypatch):
    """A file that imports a module beside it, which imports another inside of a function."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    (tmp_path / "scales_of_the_test.py").write_text("factor = 2\n")
    (tmp_path / "lengths_of_the_test").mkdir()
    (tmp_path / "lengths_of_the_test" / "__init__.py").write_text(
        "def scaled(text):\n"
        "    from scales_of_the_test import factor\n"
        "    return factor * len(text)\n"
    )
    file = tmp_path / "own.py"
    file.write_text("import lengths_of_the_test\n\n\nscaled = lengths_of_the_test.scaled\n")
    yield file
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_a_file_imports_what_lies_beside_it(with_a_helper):
    scaled = load_function(f"{with_a_helper}:scaled", field="reward")
    assert scaled("abc") == 6


def test_what_is_installed_comes_before_what_lies_beside_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    (tmp_path / "colorsys.py").write_text("rgb_to_hsv = None\n")
    (tmp_path / "own.py").write_text("from colorsys import rgb_to_hsv as reward\n")
    assert load_function(f"{tmp_path}/own.py:reward", field="reward") is not None


def test_the_digest_of_a_file_is_that_of_all_that_it_imports_beside_it(with_a_helper):
    target = f"{with_a_helper}:scaled"
    before = digest_of_file(target)
    assert files_named({"reward": [target]}) == {target: before}
    for name in ("unread.py", "own_notes.txt"):
        with_a_helper.with_name(name).write_text("factor = 4\n")
    assert digest_of_file(target) == before
    with_a_helper.with_name("scales_of_the_test.py").write_text("factor = 3\n")
    assert digest_of_file(target) != before


@pytest.mark.parametrize("first", ["__init__.py", "rules.py"])  # or no `__init__.py`
@pytest.mark.parametrize("import_line", ["from grading import rules", "import grading.rules"])
def test_every_module_of_a_package_beside_a_file_counts_in_its_digest(tmp_path, first, import_line):
    package = tmp_path / "grading"
    (package / "inner").mkdir(parents=True)
    for name in (first, "rules.py", "inner/weights.py"):
        (package / name).write_text("import beside_of_the_test\n")
    (tmp_path / "beside_of_the_test.py").write_text("x = 1\n")
    (tmp_path / "own.py").write_text(f"{import_line}\nreward = len\n")
    digests = {digest_of_file(f"{tmp_path}/own.py:reward")}
    files = sorted([*package.rglob("*.py"), tmp_path / "beside_of_the_test.py"])
    for file in files:
        file.write_text("changed = True\n" + file.read_text())
        digests.add(digest_of_file(f"{tmp_path}/own.py:reward"))
    assert len(digests) == 1 + len(files)


def test_a_folder_does_not_hide_the_installed_package_of_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "notes.py").write_text("x = 1\n")
    (tmp_path / "own.py").write_text("import numpy\nreward = numpy.sum\n")
    before = digest_of_file(f"{tmp_path}/own.py:reward")
    (tmp_path / "numpy" / "notes.py").write_text("x = 2\n")
    assert digest_of_file(f"{tmp_path}/own.py:reward") == before
    assert load_function(f"{tmp_path}/own.py:reward", field="reward") is not None


def test_a_second_module_of_a_name_beside_another_file_is_refused(with_a_helper, tmp_path):
    load_function(f"{with_a_helper}:scaled", field="reward")
    other = tmp_path / "other"
    other.mkdir()
    (other / "lengths_of_the_test.py").write_text("scaled = len\n")
    (other / "own.py").write_text("from lengths_of_the_test import scaled\n")
    with pytest.raises(InvalidValueError, match="another module of that name is loaded"):
        load_function(f"{other}/own.py:scaled", field="reward")


@pytest.mark.parametrize("content", ["def f(:\n", "\0", "from . import x\nf = len\n"])
def test_a_file_that_is_no_python_has_a_digest(tmp_path, content):
    (tmp_path / "own.py").write_text(content)
    assert digest_of_file(f"{tmp_path}/own.py:f") is not None
    assert digest_of_file(f"{tmp_path}/none.py:f") is None


def test_a_module_that_a_package_of_its_name_hides_is_not_a_part_of_a_file(with_a_helper):
    target = f"{with_a_helper}:scaled"
    before = digest_of_file(target)
    with_a_helper.with_name("lengths_of_the_test.py").write_text("scaled = len\n")
    assert digest_of_file(target) == before
    assert load_function(target, field="reward")("abc") == 6
