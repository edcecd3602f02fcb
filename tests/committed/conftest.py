import importlib.util

import pytest

from committed.results import ROOT


@pytest.fixture(scope="session")
def fill():
    """Return the script docs/fill.py as a module."""
    spec = importlib.util.spec_from_file_location("fill", ROOT / "docs" / "fill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
