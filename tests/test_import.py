import subprocess
import sys

import pytest

import maxatk

HEAVY = ["torch", "transformers", "trl", "accelerate", "datasets", "tokenizers"]
HEAVY += ["matplotlib", "pandas", "scipy", "jinja2", "rich", "tyro", "yaml"]
PROBE = "import {module}, sys; print([n for n in {heavy!r} if n in sys.modules])"


def heavy_imports_of(module):
    probe = PROBE.format(module=module, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["maxatk", "maxatk.verifier", "maxatk.problems"])
def test_light_boxes_import_nothing_heavy(module):
    assert heavy_imports_of(module) == "[]"


@pytest.mark.parametrize("module", ["maxatk.report", "maxatk.mini", "maxatk.cli.main"])
def test_torch_waits_until_it_is_used(module):
    loaded = heavy_imports_of(module)
    assert "torch" not in loaded
    assert "transformers" not in loaded


def test_the_check_above_can_fail():
    assert heavy_imports_of("yaml") == "['yaml']"


def test_public_names_are_all_there():
    for name in maxatk.__all__:
        assert getattr(maxatk, name) is not None
    wanted = "max_at_k pass_at_k advantages METHODS Verifier TestCase Problem load_problems Outcome"
    assert set(wanted.split()) <= set(maxatk.__all__)


def test_public_names_of_the_verifier():
    from maxatk.verifier import binary_code_reward, code_reward

    assert (code_reward.__name__, binary_code_reward.__name__) == (
        "code_reward",
        "binary_code_reward",
    )


def test_lazy_names_are_those_of_their_boxes():
    from maxatk.problems import load_problems
    from maxatk.verifier import Verifier

    assert maxatk.load_problems is load_problems
    assert maxatk.Verifier is Verifier


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'maxatk' has no attribute 'nonsense'"):
        _ = maxatk.nonsense


def test_the_version_is_that_of_the_package():
    import importlib.metadata

    assert maxatk.__version__ == importlib.metadata.version("maxatk")


def test_the_function_evaluate_is_loaded_on_first_use():
    probe = (
        "import maxatk, sys; before = 'maxatk.evaluation' in sys.modules; "
        "print(before, callable(maxatk.evaluate))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout == "False True\n", done.stderr


def test_a_bare_install_is_told_which_extra_trains():
    without_torch = (
        "import sys\nsys.modules['torch'] = None\n"
        "try:\n    import maxatk.train\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", without_torch], capture_output=True, text=True)
    assert "pip install 'maxatk[train]'" in done.stdout
